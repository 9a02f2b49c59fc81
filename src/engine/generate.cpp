// The generation loop. See generate.hpp.
#include "engine/generate.hpp"

#include <chrono>
#include <optional>

#include "base/error.hpp"
#include "engine/stop_matcher.hpp"
#include "tokenizer/stream_decoder.hpp"

namespace minfer::engine {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Logits of the prompt's last token; nullopt where it was cancelled.
std::optional<std::span<const float>> run_prompt(Runner& runner, Sequence& sequence, const GenerateRequest& request,
                                                 const CancelFn& cancelled) {
  try {
    return append(runner, sequence, request.prompt, cancelled);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::cancelled) throw;
    return std::nullopt;
  }
}

}  // namespace

GenerateResult generate(Runner& runner, Sequence& sequence, const tokenizer::Tokenizer& tokenizer,
                        const GenerateRequest& request, int64_t context_tokens, const TextFn& on_text,
                        const CancelFn& cancelled) {
  Sampler sampler(request.sampler, static_cast<int64_t>(tokenizer.vocab().size()));
  StopMatcher stops(request.stops);
  tokenizer::StreamDecoder decoder(tokenizer, {.show_control = false, .at_text_start = false});
  for (const int32_t token : request.prompt) sampler.accept(token);
  GenerateResult result;
  result.prompt_tokens = static_cast<int64_t>(request.prompt.size());
  const auto show = [&](const std::string& text) {
    if (!text.empty()) on_text(text);
  };

  const Clock::time_point start = Clock::now();
  auto logits = run_prompt(runner, sequence, request, cancelled);
  result.prompt_seconds = seconds_since(start);
  if (!logits) {
    result.reason = StopReason::cancelled;
    return result;
  }
  const Clock::time_point first = Clock::now();
  const auto next_reason = [&](int32_t token) -> std::optional<StopReason> {
    if (tokenizer.vocab().is_end_of_generation(token)) return StopReason::end_of_generation;
    show(stops.push(decoder.push(token)));
    if (stops.stopped()) return StopReason::stop_string;
    if (result.generated_tokens == request.max_tokens) return StopReason::max_tokens;
    if (sequence.length() >= context_tokens) return StopReason::context_full;
    if (cancelled && cancelled()) return StopReason::cancelled;
    return std::nullopt;
  };
  if (request.max_tokens == 0) {
    result.reason = StopReason::max_tokens;
    return result;
  }
  while (true) {
    const int32_t token = sampler.sample(*logits);
    sampler.accept(token);
    ++result.generated_tokens;
    if (const auto reason = next_reason(token)) {
      result.reason = *reason;
      break;
    }
    logits = append(runner, sequence, std::span(&token, 1));
  }
  show(stops.push(decoder.finish()));
  if (!stops.stopped()) show(stops.finish());
  result.generate_seconds = seconds_since(first);
  return result;
}

}  // namespace minfer::engine
