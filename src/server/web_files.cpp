// Serving the web page. See web_files.hpp.
// A browser asks each time whether a file has changed, and gets it only then.
#include "server/web_files.hpp"

#include <string>

namespace minfer::server {
namespace {

constexpr std::string_view kIndex = "/index.html";
// Nothing of another site, nothing inline: text of a model that became markup could still do nothing.
constexpr std::string_view kPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

struct Type {
  std::string_view ending;
  std::string_view content_type;
};

constexpr Type kTypes[] = {
    {".html", "text/html; charset=utf-8"},
    {".css", "text/css; charset=utf-8"},
    {".js", "text/javascript; charset=utf-8"},
    {".svg", "image/svg+xml"},
    {".png", "image/png"},
    {".json", "application/json"},
    {".webmanifest", "application/manifest+json"},
};

std::string_view content_type(std::string_view path) {
  for (const Type& row : kTypes) {
    if (path.ends_with(row.ending)) return row.content_type;
  }
  return "application/octet-stream";
}

void serve(const EmbeddedFile& file, const HttpRequest& request, Responder& responder) {
  constexpr int kNotModified = 304;
  HttpResponse response{.content_type = std::string(content_type(file.path)),
                        .headers = {{"ETag", std::string(file.etag)},
                                    {"Cache-Control", "no-cache"},
                                    {"Content-Security-Policy", std::string(kPolicy)}}};
  const auto known = request.header("if-none-match");
  if (known && known->find(file.etag) != std::string_view::npos) {
    response.status = kNotModified;
    response.content_type.clear();
  } else {
    response.body = file.bytes;
  }
  responder.send(std::move(response));
}

}  // namespace

std::vector<Route> web_routes() {
  std::vector<Route> routes;
  for (const EmbeddedFile& file : embedded_files()) {
    const auto handler = [file](const HttpRequest& request, const std::shared_ptr<Responder>& responder) {
      serve(file, request, *responder);
    };
    routes.push_back({"GET", file.path, false, false, handler});
    if (file.path == kIndex) routes.push_back({"GET", "/", false, false, handler});
  }
  return routes;
}

}  // namespace minfer::server
