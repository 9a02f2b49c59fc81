// Reading an adapter's file, and holding its pairs against the model's weights. See adapter.hpp.
#include "model/adapter.hpp"

#include <cmath>

#include "base/error.hpp"

namespace minfer::model {
namespace {

constexpr std::string_view kDown = ".lora_a";
constexpr std::string_view kUp = ".lora_b";

void require_text(const gguf::Metadata& metadata, std::string_view key, std::string_view expected) {
  const auto found = metadata.find_string(key);
  if (found && *found == expected) return;
  fail(ErrorCode::unsupported, "{}: {} is {}, expected '{}': --lora takes LoRA adapters in GGUF", metadata.source(),
       key, found ? fmt::format("'{}'", *found) : "missing", expected);
}

bool is_matrix(const gguf::TensorInfo& tensor) {
  return tensor.shape[2] == 1 && tensor.shape[3] == 1;
}

}  // namespace

Adapter::Adapter(gguf::File file, const std::string& architecture, float scale)
    : file_(std::move(file)), scale_(scale) {
  const gguf::Metadata& metadata = file_.metadata();
  require_text(metadata, "general.type", "adapter");
  require_text(metadata, "adapter.type", "lora");
  const auto of = metadata.require_string("general.architecture");
  if (of != architecture) {
    fail(ErrorCode::unsupported, "{}: the adapter is of architecture {}, the model of {}", source(), of, architecture);
  }
  if (metadata.find("adapter.alora.invocation_tokens") != nullptr) {
    fail(ErrorCode::unsupported,
         "{}: adapter.alora.invocation_tokens: adapters that a text switches on are not supported", source());
  }
  if (!(std::fabs(scale) <= kMaxAdapterScale)) {
    fail(ErrorCode::invalid_input, "{}: a scale of {}; expected -{} to {}", source(), scale, kMaxAdapterScale,
         kMaxAdapterScale);
  }
  alpha_ = metadata.require_f32("adapter.lora.alpha");
  if (!std::isfinite(alpha_)) fail(ErrorCode::invalid_input, "{}: adapter.lora.alpha is {}", source(), alpha_);
  read_pairs();
}

void Adapter::read_pairs() {
  for (const gguf::TensorInfo& tensor : file_.tensors()) {
    const std::string_view name = tensor.name;
    const bool down = name.ends_with(kDown);
    if (!down && !name.ends_with(kUp)) {
      fail(ErrorCode::unsupported, "{}: tensor {} is no half of a low-rank pair; expected names ending in {} or {}",
           source(), name, kDown, kUp);
    }
    const std::string weight(name.substr(0, name.size() - kDown.size()));
    const gguf::TensorInfo* other = file_.find_tensor(weight + std::string(down ? kUp : kDown));
    if (other == nullptr) {
      fail(ErrorCode::invalid_input, "{}: tensor {} has no {}", source(), name,
           weight + std::string(down ? kUp : kDown));
    }
    if (!down) continue;
    const int64_t rank = tensor.shape[1];
    if (!is_matrix(tensor) || !is_matrix(*other)) {
      fail(ErrorCode::unsupported, "{}: tensors {} and {} are of several matrices (experts), which is not supported",
           source(), name, other->name);
    }
    if (rank > kMaxAdapterRank || other->shape[0] != rank) {
      fail(ErrorCode::invalid_input, "{}: tensor {} has rank {}, {} has {}; expected the same, and at most {}",
           source(), name, rank, other->name, other->shape[0], kMaxAdapterRank);
    }
    pairs_.push_back({weight, &tensor, other});
  }
  if (pairs_.empty()) fail(ErrorCode::invalid_input, "{}: the adapter has no tensors", source());
}

float Adapter::factor(const AdapterPair& pair) const {
  return alpha_ == 0.0F ? 1.0F : alpha_ / static_cast<float>(pair.down->shape[1]);
}

void check_pair(const Adapter& adapter, const AdapterPair& pair, const graph::WeightSource* weight) {
  if (weight == nullptr) {
    fail(ErrorCode::invalid_input, "{}: the adapter changes {}, which the model does not have", adapter.source(),
         pair.weight);
  }
  if (weight->role != graph::WeightRole::matrix || weight->shape.experts != 1) {
    fail(ErrorCode::unsupported, "{}: the adapter changes {}, which is no matrix of a product of every token",
         adapter.source(), pair.weight);
  }
  if (pair.down->shape[0] == weight->shape.cols && pair.up->shape[1] == weight->shape.rows) return;
  fail(ErrorCode::invalid_input, "{}: {} and {} are {} x {} and {} x {}; expected {} and {} outside for {}",
       adapter.source(), pair.down->name, pair.up->name, pair.down->shape[0], pair.down->shape[1], pair.up->shape[0],
       pair.up->shape[1], weight->shape.cols, weight->shape.rows, pair.weight);
}

}  // namespace minfer::model
