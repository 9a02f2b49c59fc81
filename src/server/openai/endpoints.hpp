// One handler an endpoint, each in its file; routes.cpp has the table. A handler throws ApiFailure or Error before it
// has given the job away; afterwards the answer is the answers' thread's business.
#pragma once

#include <memory>
#include <string_view>

#include "server/http/exchange.hpp"
#include "server/openai/service.hpp"

namespace minfer::server::openai {

inline constexpr std::string_view kChatPath = "/v1/chat/completions";
inline constexpr std::string_view kCompletionsPath = "/v1/completions";
inline constexpr std::string_view kResponsesPath = "/v1/responses";
inline constexpr std::string_view kEmbeddingsPath = "/v1/embeddings";
inline constexpr std::string_view kModelsPath = "/v1/models";
inline constexpr std::string_view kModelPathPrefix = "/v1/models/";  // then the model's name

using EndpointHandler = void(Service& service, const HttpRequest& request, const std::shared_ptr<Responder>& responder);

EndpointHandler handle_chat;
EndpointHandler handle_completions;
EndpointHandler handle_responses;
EndpointHandler handle_embeddings;
EndpointHandler handle_tokenize;
EndpointHandler handle_detokenize;
EndpointHandler handle_apply_template;
EndpointHandler handle_models;
EndpointHandler handle_model;
EndpointHandler handle_adapters;

}  // namespace minfer::server::openai
