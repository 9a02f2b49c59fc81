// The web page: files of src/server/web/ that are part of the program, and the routes that serve them. They need
// neither the key nor the model: the page asks for both. Immutable.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "server/http/exchange.hpp"

namespace minfer::server {

struct EmbeddedFile {
  std::string_view path;  // "/app.js"
  std::string_view etag;  // with its quotes
  std::string_view bytes;
};

// Made by embed_files.cmake.
std::span<const EmbeddedFile> embedded_files();

// "/NAME" for each file, and "/" for index.html.
std::vector<Route> web_routes();

}  // namespace minfer::server
