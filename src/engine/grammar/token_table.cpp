// Building the trie of a vocabulary. See token_table.hpp.
#include "engine/grammar/token_table.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "engine/grammar/grammar.hpp"

namespace minfer::engine::grammar {
namespace {

// The next state of a reader of UTF-8, or kBad. State 0 is between characters; the others name what is still to come.
enum Utf8State : uint8_t { kBetween, kOne, kTwo, kThree, kAfterE0, kAfterEd, kAfterF0, kAfterF4, kUtf8States, kBad };

Utf8State first_byte(uint8_t byte) {
  if (byte < 0x80) return kBetween;
  if (byte < 0xC2 || byte > 0xF4) return kBad;
  if (byte < 0xE0) return kOne;
  if (byte == 0xE0) return kAfterE0;
  if (byte == 0xED) return kAfterEd;
  if (byte < 0xF0) return kTwo;
  if (byte == 0xF0) return kAfterF0;
  return byte == 0xF4 ? kAfterF4 : kThree;
}

Utf8State next_byte(Utf8State state, uint8_t byte) {
  if (state == kBetween) return first_byte(byte);
  if (byte < 0x80 || byte > 0xBF) return kBad;
  switch (state) {
    case kOne:
      return kBetween;
    case kTwo:
      return kOne;
    case kThree:
      return kTwo;
    case kAfterE0:
      return byte >= 0xA0 ? kOne : kBad;
    case kAfterEd:
      return byte <= 0x9F ? kOne : kBad;
    case kAfterF0:
      return byte >= 0x90 ? kTwo : kBad;
    case kAfterF4:
      return byte <= 0x8F ? kTwo : kBad;
    default:
      return kBad;
  }
}

void set_bit(std::vector<uint32_t>& mask, size_t bit) {
  mask[bit / 32] |= uint32_t{1} << (bit % 32);
}

size_t common_prefix(std::string_view a, std::string_view b) {
  const size_t most = std::min(a.size(), b.size());
  size_t length = 0;
  while (length < most && a[length] == b[length]) ++length;
  return length;
}

}  // namespace

int byte_group(uint8_t ascii) {
  constexpr int kHexLower = 0, kLower = 1, kHexUpper = 2, kUpper = 3, kDigit = 4, kControl = 5, kTab = 6, kNewline = 7,
                kReturn = 8, kDelete = 9, kFirstMark = 10;
  if (ascii >= 'a' && ascii <= 'z') return ascii <= 'f' ? kHexLower : kLower;
  if (ascii >= 'A' && ascii <= 'Z') return ascii <= 'F' ? kHexUpper : kUpper;
  if (ascii >= '0' && ascii <= '9') return kDigit;
  if (ascii == '\t') return kTab;
  if (ascii == '\n') return kNewline;
  if (ascii == '\r') return kReturn;
  if (ascii == 0x7F) return kDelete;
  if (ascii < ' ') return kControl;
  // The 33 others: space, 15 before the digits, 7 behind, 6 between the cases, 4 at the end.
  if (ascii < '0') return kFirstMark + ascii - ' ';
  if (ascii < 'A') return kFirstMark + 16 + ascii - ':';
  if (ascii < 'a') return kFirstMark + 23 + ascii - '[';
  return kFirstMark + 29 + ascii - '{';
}

TokenTable::TokenTable(std::vector<Token> tokens)
    : vocabulary_(tokens.size()), end_mask_(mask_words()), text_mask_(mask_words()) {
  offsets_.reserve(tokens.size() + 1);
  for (size_t id = 0; id < tokens.size(); ++id) {
    Token& token = tokens[id];
    offsets_.push_back(static_cast<uint32_t>(texts_.size()));
    if (token.ends) {
      set_bit(end_mask_, id);
    } else if (token.is_control) {
      if (!token.name.empty()) controls_.emplace(std::move(token.name), static_cast<int32_t>(id));
    } else if (!token.text.empty()) {
      if (token.text.size() > kMaxTokenText) {
        fail(ErrorCode::unsupported, "grammar: token {} has {} bytes; grammars can match {} at most", id,
             token.text.size(), kMaxTokenText);
      }
      texts_ += token.text;
      set_bit(text_mask_, id);
      longest_ = std::max(longest_, token.text.size());
    }
    if (texts_.size() > UINT32_MAX) fail(ErrorCode::unsupported, "grammar: the vocabulary has more than 4 GB of text");
  }
  offsets_.push_back(static_cast<uint32_t>(texts_.size()));
  sort();
  build_nodes();
  summarize();
}

int32_t TokenTable::find_control(std::string_view name) const {
  const auto found = controls_.find(std::string(name));
  return found == controls_.end() ? -1 : found->second;
}

void TokenTable::sort() {
  for (size_t id = 0; id < vocabulary_; ++id) {
    if (offsets_[id] != offsets_[id + 1]) sorted_.push_back(static_cast<int32_t>(id));
  }
  std::sort(sorted_.begin(), sorted_.end(), [this](int32_t a, int32_t b) {
    const int order = text(a).compare(text(b));
    return order != 0 ? order < 0 : a < b;
  });
}

void TokenTable::build_nodes() {
  std::vector<uint32_t> open = {0};  // the path to the last node
  nodes_.push_back({0, 0, 0, 0, 0, 0});
  std::string_view before;
  for (size_t rank = 0; rank < sorted_.size(); ++rank) {
    const std::string_view now = text(sorted_[rank]);
    const size_t shared = common_prefix(before, now);
    for (; open.size() > shared + 1; open.pop_back()) nodes_[open.back()].end = static_cast<uint32_t>(nodes_.size());
    for (size_t depth = shared; depth < now.size(); ++depth) {
      open.push_back(static_cast<uint32_t>(nodes_.size()));
      nodes_.push_back(
          {0, 0, static_cast<uint32_t>(rank), static_cast<uint16_t>(depth + 1), 0, static_cast<uint8_t>(now[depth])});
    }
    before = now;
  }
  for (; !open.empty(); open.pop_back()) nodes_[open.back()].end = static_cast<uint32_t>(nodes_.size());
  for (uint32_t child = 1; child < nodes_.size(); child = nodes_[child].end) root_children_[nodes_[child].byte] = child;
  nodes_.push_back({0, 0, static_cast<uint32_t>(sorted_.size()), 0, 0, 0});
}

// From the last node to the first, each into its parent, which is the last before it of a smaller depth.
void TokenTable::summarize() {
  const size_t count = nodes_.size() - 1;
  std::vector<uint32_t> parents(count, 0);
  std::vector<uint32_t> open;
  for (uint32_t i = 0; i < count; ++i) {
    open.resize(nodes_[i].depth);
    if (i > 0) parents[i] = open.back();
    open.push_back(i);
  }
  // Bit s: all below is a beginning of characters for a reader in state s.
  std::vector<uint8_t> well_formed(count, 0xFF);
  for (size_t i = count; i-- > 0;) {
    Node& node = nodes_[i];
    if ((well_formed[i] >> kBetween & 1) == 0) node.groups |= kMalformed;
    if (i == 0) break;
    Node& parent = nodes_[parents[i]];
    parent.height = std::max(parent.height, static_cast<uint16_t>(node.height + 1));
    parent.groups |= node.groups & ~kMalformed;
    parent.groups |= node.byte < 0x80 ? ByteGroups{1} << byte_group(node.byte) : kNonAscii;
    for (int state = 0; state < kUtf8States; ++state) {
      const Utf8State next = next_byte(static_cast<Utf8State>(state), node.byte);
      if (next == kBad || (well_formed[i] >> next & 1) == 0) {
        well_formed[parents[i]] = static_cast<uint8_t>(well_formed[parents[i]] & ~(1 << state));
      }
    }
  }
}

std::shared_ptr<const TokenTable> make_token_table(const tokenizer::Tokenizer& tokenizer) {
  const tokenizer::Vocab& vocab = tokenizer.vocab();
  std::vector<TokenTable::Token> tokens(vocab.size());
  for (size_t i = 0; i < tokens.size(); ++i) {
    const auto id = static_cast<tokenizer::TokenId>(i);
    const tokenizer::TokenType type = vocab.type(id);
    tokens[i].ends = vocab.is_end_of_generation(id);
    if (tokens[i].ends) continue;
    tokens[i].is_control = type == tokenizer::TokenType::control;
    if (tokens[i].is_control) {
      tokens[i].name = vocab.text(id);
    } else if (type != tokenizer::TokenType::unknown && type != tokenizer::TokenType::unused) {
      tokenizer.append_token_bytes(id, tokens[i].text);
    }
  }
  return std::make_shared<TokenTable>(std::move(tokens));
}

}  // namespace minfer::engine::grammar
