// The texts of a vocabulary as a trie, in the order in which a walk visits it: a node behind its parent, subtrees one
// behind another, so that a subtree is a range of nodes and its tokens are a range of the sorted tokens. Each node says
// what bytes are below it, so that a walk can take a whole subtree at once. Made once a model; immutable; any thread.
// Which tokens have a text: all but control, unknown and unused ones, those that end a generation, and those whose text
// is empty. Limit: kMaxTokenText bytes a token.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tokenizer/tokenizer.hpp"

namespace minfer::engine::grammar {

inline constexpr size_t kMaxTokenText = 0xFFFF;

// A set of bytes, as coarse as loops of real grammars need it: bit byte_group(b) for the bytes of an ASCII group.
using ByteGroups = uint64_t;
inline constexpr ByteGroups kNonAscii = ByteGroups{1} << 62;  // some byte of 0x80 and above
// The bytes are not a beginning of whole characters.
inline constexpr ByteGroups kMalformed = ByteGroups{1} << 63;
// 0 to 61.
int byte_group(uint8_t ascii);

class TokenTable {
 public:
  // What a token is to a grammar.
  struct Token {
    std::string text;         // empty: never matched as text
    bool ends = false;        // a generation
    bool is_control = false;  // matched only where a grammar names the token itself, by its text `name`
    std::string name = {};
  };
  struct Node {
    ByteGroups groups;     // of all bytes below it (its own not)
    uint32_t end;          // behind its subtree
    uint32_t first_token;  // in sorted(), of its subtree: those that end at the node itself come first
    uint16_t depth;        // bytes up to and with its own
    uint16_t height;       // most bytes below it
    uint8_t byte;
  };

  // Errors: unsupported for a text longer than kMaxTokenText.
  explicit TokenTable(std::vector<Token> tokens);

  size_t vocabulary() const { return vocabulary_; }
  size_t mask_words() const { return (vocabulary_ + 31) / 32; }
  // Node 0 is the empty text; one more behind the last, for its first_token.
  std::span<const Node> nodes() const { return nodes_; }
  // The first node whose text is the byte alone, 0: none.
  uint32_t root_child(uint8_t byte) const { return root_children_[byte]; }
  // Those with a text, ascending by it.
  std::span<const int32_t> sorted() const { return sorted_; }
  std::string_view text(int32_t token) const {
    return std::string_view(texts_).substr(offsets_[token], offsets_[token + 1] - offsets_[token]);
  }
  bool ends(int32_t token) const { return (end_mask_[token / 32] >> (token % 32) & 1) != 0; }
  // As masks of tokens: those that end a generation; those with a text.
  std::span<const uint32_t> end_mask() const { return end_mask_; }
  std::span<const uint32_t> text_mask() const { return text_mask_; }
  // The control token of that name, -1: none.
  int32_t find_control(std::string_view name) const;
  size_t longest_text() const { return longest_; }

 private:
  void sort();
  void build_nodes();
  void summarize();

  size_t vocabulary_;
  std::string texts_;
  std::vector<uint32_t> offsets_;  // by token
  std::vector<int32_t> sorted_;
  std::vector<Node> nodes_;
  std::array<uint32_t, 256> root_children_{};
  std::vector<uint32_t> end_mask_;
  std::vector<uint32_t> text_mask_;
  std::unordered_map<std::string, int32_t> controls_;
  size_t longest_ = 0;
};

}  // namespace minfer::engine::grammar
