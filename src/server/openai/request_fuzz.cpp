// Fuzzes the readers of requests, from the body's bytes to the engine's requests: the first byte says which endpoint,
// and whether the server is strict. Only what becomes a 4xx may come out. The corpus (fuzz/corpus/openai_request) holds
// bodies of our own.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "server/openai/chat_request.hpp"
#include "server/openai/response_request.hpp"
#include "server/openai/test_support.hpp"

namespace {

using minfer::server::openai::Fields;
using minfer::server::openai::PreparedModel;
using minfer::server::openai::test::TestModel;

struct Model {
  explicit Model(std::string_view source) : words(source), prepared(words.model) {}
  TestModel words;
  PreparedModel prepared;
};

void read(uint8_t choice, std::string_view body, PreparedModel& model) {
  namespace openai = minfer::server::openai;
  const minfer::chat::Value value = openai::parse_body(body);
  Fields fields(value, "", (choice & 1) != 0);
  switch (choice >> 1 & 3) {
    case 0: {
      auto request = openai::read_chat_request(fields, model);
      request.tools.required = false;  // grammars have a fuzzer of their own
      request.constraint = {};
      (void)openai::prepare_chat(model, request);
      break;
    }
    case 1:
      (void)openai::render_chat(model, openai::read_response_request(fields, model).chat);
      break;
    case 2:
      (void)openai::read_prompts(fields.require("prompt", "a text"), "prompt", *model.served, 16);
      (void)openai::read_generation_fields(fields, *model.served);
      (void)openai::read_constraint(fields);
      fields.finish();
      break;
    default: {
      openai::ChatRequest request;
      openai::read_conversation(fields, model, request);
      (void)openai::render_chat(model, request);
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static Model with_tools(minfer::server::openai::test::kTemplate);
  static Model bare("{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}");
  if (size == 0) return 0;
  const std::string_view body(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    read(data[0], body, (data[0] & 8) != 0 ? bare.prepared : with_tools.prepared);
  } catch (const minfer::Error& error) {
    const bool is_clients =
        error.code() == minfer::ErrorCode::invalid_input || error.code() == minfer::ErrorCode::unsupported;
    if (!is_clients) throw;
  }
  return 0;
}
