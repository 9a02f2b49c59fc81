// Template: parse and render, and the one place where the interpreter's failures become Errors. See template.hpp.
#include "chat/template.hpp"

#include "base/utf8.hpp"
#include "chat/jinja/interpreter.hpp"
#include "chat/jinja/parser.hpp"

namespace minfer::chat {

Template Template::parse(std::string_view source, std::string name) {
  if (source.size() > jinja::kMaxTemplateBytes) {
    fail(ErrorCode::invalid_input, "chat template {}: {} bytes; the limit is {}", name, source.size(),
         jinja::kMaxTemplateBytes);
  }
  if (const size_t at = find_malformed_utf8(source); at != std::string_view::npos) {
    fail(ErrorCode::invalid_input, "chat template {}: not valid UTF-8 at byte {}", name, at);
  }
  try {
    auto program = std::make_shared<const jinja::Program>(jinja::Parser(source).parse());
    return Template(std::move(name), std::move(program));
  } catch (const jinja::SyntaxError& error) {
    fail(ErrorCode::invalid_input, "chat template {}, line {}: {}", name, error.line, error.message);
  }
}

std::string Template::render(const Value& variables, const RenderOptions& options) const {
  if (!variables.is(Kind::dict)) {
    fail(ErrorCode::invalid_input, "chat template {}: the variables must be a dict (a JSON object)", name_);
  }
  jinja::Interpreter interpreter(*program_, variables, options);
  try {
    return interpreter.run();
  } catch (const jinja::RenderFailure& failure) {
    const int line = interpreter.line();
    if (failure.by_template) {
      throw RaisedError(
          fmt::format("chat template {}, line {}: the template refuses: {}", name_, line, failure.message),
          failure.message);
    }
    const std::string construct = failure.construct.empty() ? "" : failure.construct + ": ";
    fail(ErrorCode::invalid_input, "chat template {}, line {}: {}{}", name_, line, construct, failure.message);
  } catch (const Error& error) {
    fail(error.code(), "chat template {}, line {}: {}", name_, interpreter.line(), error.what());
  }
}

}  // namespace minfer::chat
