// Arguments written as a JSON object, and the choice of the reader.
#include "chat/output/argument_reader.hpp"

#include "chat/output/argument_readers.hpp"
#include "chat/output/json_scanner.hpp"

namespace minfer::chat::output {

namespace {

class JsonReader final : public ArgumentReader {
 public:
  Match read(std::string_view text, bool final, std::string& out) override {
    size_t skipped = 0;
    if (!begun_) {
      skipped = after_space(text);
      if (skipped == text.size()) return {Fit::more, skipped};
      if (text[skipped] != '{') return {Fit::no, skipped};
      begun_ = true;
    }
    Match match = scanner_.read(text.substr(skipped), false, out);
    match.size += skipped;
    (void) final;  // an object has a mark of its end
    return match;
  }

 private:
  JsonScanner scanner_{kMaxArgumentDepth};
  bool begun_ = false;
};

}  // namespace

std::unique_ptr<ArgumentReader> make_argument_reader(const ToolSyntax& syntax, const ToolSignature& tool, bool json) {
  if (json || syntax.arguments == ArgumentStyle::json) return std::make_unique<JsonReader>();
  if (syntax.arguments == ArgumentStyle::tagged) return make_tagged_reader(syntax, tool);
  return make_literal_reader(syntax.arguments);
}

}  // namespace minfer::chat::output
