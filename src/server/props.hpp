// GET /props: what a client's settings page wants to know of the model and of what holds where a request says nothing.
#pragma once

#include <string>

#include "server/served_model.hpp"

namespace minfer::server {

// A JSON object.
std::string props_json(const ServedModel& model);

}  // namespace minfer::server
