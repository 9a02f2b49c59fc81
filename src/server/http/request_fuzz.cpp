// Any bytes as a client's: cut by the first byte, read as requests one after another, each looked up in a table of
// endpoints. What a request may not have is never in one that is taken.
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/error.hpp"
#include "server/http/request_reader.hpp"
#include "server/http/target.hpp"
#include "server/router.hpp"

namespace minfer::server {
namespace {

constexpr size_t kHeaderBytes = 2000;
constexpr size_t kBodyBytes = 500;

Router make_router() {
  const Handler none = [](const HttpRequest&, const auto&) {};
  return {{{"POST", "/echo", true, true, none}, {"GET", "/below/*", true, true, none}},
          {.api_keys = {"key"}, .cors_origins = {"*"}},
          [] { return std::nullopt; }};
}

void check_request(const RequestReader& reader, const HttpRequest& request) {
  check(!request.path.empty() && (request.path[0] == '/' || request.path == "*"), "a path begins with '/'");
  check(request.path.find('\0') == std::string::npos, "a path has no control characters");
  check(request.body.size() <= kBodyBytes, "a body is within the limit");
  check(!reader.is_chunkable() || request.header("host").has_value(), "HTTP/1.1 has a Host");
  for (const auto& [name, value] : request.headers) {
    check(!name.empty() && value.find_first_of("\r\n") == std::string::npos, "a header is one line");
  }
}

void read_all(std::string_view bytes, size_t step) {
  static const Router router = make_router();
  RequestReader reader(kHeaderBytes, kBodyBytes);
  while (!bytes.empty()) {
    const size_t count = std::min({step, bytes.size(), reader.room()});
    check(count > 0, "a reader has room, or fails");
    reader.append(bytes.substr(0, count));
    bytes.remove_prefix(count);
    for (auto state = reader.advance(); state != RequestReader::State::more; state = reader.advance()) {
      if (state == RequestReader::State::failed) {
        check(reader.status() >= 400 && !reader.message().empty(), "a failure has a status and a reason");
        return;
      }
      check_request(reader, reader.request());
      if (state == RequestReader::State::head) {
        const Admission admission = router.admit(reader.request());
        check(admission.handler != nullptr || admission.refusal.status >= 200, "a request is taken or refused");
        continue;
      }
      const bool goes_on = reader.keeps_alive();
      reader.next();
      if (!goes_on) return;
    }
  }
}

}  // namespace
}  // namespace minfer::server

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  minfer::server::read_all({reinterpret_cast<const char*>(data) + 1, size - 1}, size_t{data[0]} + 1);
  return 0;
}
