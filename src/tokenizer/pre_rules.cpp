// The table of pre-tokenizer rules. See pre_rules.hpp. Expressions are in PCRE2's terms. One character is one step of a
// repeat, or the repeat is possessive: both take constant stack. Where the published expression is another, a comment
// says why the two match alike.
#include "tokenizer/pre_rules.hpp"

#include <string>

#include "base/error.hpp"

namespace minfer::tokenizer {
namespace {

constexpr std::string_view kGpt2Words = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::string_view kLlama3Words =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen2Words =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen35Words =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kMiniCpm5Words =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kSeedCoderWords =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kUfakzekaWords =
    R"([^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kBailingWords =
    R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)";
// White space is cut into powers of two. Published without the look behind: where white space that is no newline comes
// before, that token was tried for a newline too, and no newline follows. With it, a long run is not searched by each.
constexpr std::string_view kJais2Words =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|(?<![^\S\r\n])\s*[\r\n]+|)"
    R"(\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S)|\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s)";
// Published as (?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+: from a letter on, letters, marks, and spaces that a letter follows.
constexpr std::string_view kExaoneMoeWords =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}(?:[\p{L}\p{M}]++| (?=\p{L}))*+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|)"
    R"(\s*[\r\n]|\s+(?!\S)|\s+)";
constexpr std::string_view kTekkenWords =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|)"
    R"(\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kGpt4oWords =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kYoutuWords =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"(\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
// Published as X*Y+ and X+Y*, where X is [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]], Y the same with \p{Ll} for \p{Lu}
// and \p{Lt}. X*Y+ matches all X up to a \p{Ll} and all Y from there; where none follows the X, it gives back what
// comes after the last X that is a Y. What X+Y* then still has to match is upper case alone.
constexpr std::string_view kKimiK2Words =
    R"(\p{sc:Han}++|)"
    R"([^\r\n\p{L}\p{N}]?(?:(?:[\p{Lu}\p{Lt}]++|(?!\p{sc:Han})[\p{Lm}\p{Lo}\p{M}])*+\p{Ll}(?:\p{Ll}++|(?!\p{sc:Han})[\p{Lm}\p{Lo}\p{M}])*+|)"
    R"((?:[\p{Lu}\p{Lt}]*+(?!\p{sc:Han})[\p{Lm}\p{Lo}\p{M}])++)(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}]++(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kBloomWords = R"( ?[^(\s|.,!?\x{2026}\x{3002}\x{FF0C}\x{3001}\x{964}\x{6D4}\x{60C})]+)";

constexpr std::string_view kDeepSeek3Words =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|)"
    R"(\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kSparkWords =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+|[\r\n]|)"
    R"(\s+(?!\S)|\s+)";
constexpr std::string_view kHanAndKana = R"([\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+)";
constexpr std::string_view kDeepSeekEastAsian = R"([\x{4E00}-\x{9FA5}\x{800}-\x{4E00}\x{AC00}-\x{D7FF}]+)";
// Letters that have case, as published.
constexpr std::string_view kDeepSeekLetters =
    R"(\s?[)"
    R"(A-Za-z\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA}\x{1BC}-\x{1BF}\x{1C4}-\x{293}\x{295}-\x{2AF})"
    R"(\x{370}-\x{373}\x{376}\x{377}\x{37B}-\x{37D}\x{37F}\x{386}\x{388}-\x{38A}\x{38C}\x{38E}-\x{3A1})"
    R"(\x{3A3}-\x{3F5}\x{3F7}-\x{481}\x{48A}-\x{52F}\x{531}-\x{556}\x{10A0}-\x{10C5}\x{13A0}-\x{13F5})"
    R"(\x{13F8}-\x{13FD}\x{1C90}-\x{1CBA}\x{1CBD}-\x{1CBF}\x{1D00}-\x{1D2B}\x{1D6B}-\x{1D77}\x{1D79}-\x{1D9A})"
    R"(\x{1E00}-\x{1F15}\x{1F18}-\x{1F1D}\x{1F20}-\x{1F45}\x{1F48}-\x{1F4D}\x{1F50}-\x{1F57}\x{1F59}\x{1F5B})"
    R"(\x{1F5D}\x{1F5F}-\x{1F7D}\x{1F80}-\x{1FB4}\x{1FB6}-\x{1FBC}\x{1FBE}\x{1FC2}-\x{1FC4}\x{1FC6}-\x{1FCC})"
    R"(\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB}\x{1FE0}-\x{1FEC}\x{1FF2}-\x{1FF4}\x{1FF6}-\x{1FFC}\x{2102}\x{2107})"
    R"(\x{210A}-\x{2113}\x{2115}\x{2119}-\x{211D}\x{2124}\x{2126}\x{2128}\x{212A}-\x{212D}\x{212F}-\x{2134})"
    R"(\x{2139}\x{213C}-\x{213F}\x{2145}-\x{2149}\x{214E}\x{2183}-\x{2184}\x{2C00}-\x{2C7B}\x{2C7E}-\x{2CE4})"
    R"(\x{2CEB}-\x{2CEE}\x{2CF2}-\x{2CF3}\x{A640}-\x{A66D}\x{A680}-\x{A69B}\x{A722}-\x{A76F}\x{A771}-\x{A787})"
    R"(\x{A78B}-\x{A78E}\x{AB70}-\x{ABBF}\x{FB00}-\x{FB06}\x{FB13}-\x{FB17}\x{FF21}-\x{FF3A}\x{FF41}-\x{FF5A})"
    R"(\x{10400}-\x{1044F}\x{104B0}-\x{104D3}\x{104D8}-\x{104FB}\x{10C80}-\x{10CB2}\x{10CC0}-\x{10CF2})"
    R"(\x{118A0}-\x{118DF}\x{1E900}-\x{1E943})"
    R"(]+)";
constexpr std::string_view kDeepSeekPunctuation =
    R"(\s?[!-/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}\x{2018}-\x{201F}\x{3000}-\x{3002}]+)";
// Published without the look behind, which keeps a run that does not end the piece from being searched from each place.
constexpr std::string_view kSpaceAtEnd = R"((?<!\s)\s+\z)";
constexpr std::string_view kYoutuEastAsian =
    R"([\x{AC00}-\x{D7A3}\x{3131}-\x{318E}]+|)"
    R"([\x{FF01}\x{2026}\x{201C}\x{201D}\x{2018}\x{2019}\x{2014}\x{FF1A}\x{FF1B}\x{FF0C}\x{3001}-\x{303F}\x{FE30}-\x{FE4F}]+|)"
    R"([\x{3105}-\x{312F}]+|[\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+)";
constexpr std::string_view kAfmoeAsian =
    R"([\x{4E00}-\x{9FFF}\x{3400}-\x{4DBF}\x{F900}-\x{FAFF}\x{3040}-\x{309F}\x{30A0}-\x{30FF}\x{FF65}-\x{FF9F}\x{2F00}-\x{2FDF})"
    R"(\x{E40}-\x{E7F}\x{E80}-\x{EFF}\x{1780}-\x{17FF}\x{1000}-\x{109F}\x{AA60}-\x{AA7F}\x{A9E0}-\x{A9FF}\x{AC00}-\x{D7AF}\x{1100}-\x{11FF}]+)";

constexpr std::string_view kLines = R"([^\n]+|\n+)";
constexpr std::string_view kNumber = R"(\p{N})";
constexpr std::string_view kUpToThreeNumbers = R"(\p{N}{1,3})";

}  // namespace

const std::vector<PretokenizerRule>& pretokenizer_rules() {
  static const std::vector<PretokenizerRule> table = {
      {.names = {"gpt-2", "phi-2", "jina-es", "jina-de", "jina-v2-es", "jina-v2-de", "jina-v1-en", "jina-v2-code",
                 "roberta-bpe", "gigachat", "a.x-4.0", "mellum", "exaone4", "jais", "trillion", "granite-docling"},
       .steps = {kGpt2Words}},
      {.names = {"mpt", "olmo", "modern-bert"}, .steps = {kGpt2Words}, .normalize_nfc = true},
      {.names = {"smollm", "starcoder", "refact", "codeshell", "exaone", "minerva-7b", "mellum2"},
       .steps = {kNumber, kGpt2Words}},
      {.names = {"command-r"}, .steps = {kNumber, kGpt2Words}, .normalize_nfc = true},
      {.names = {"qwen2", "deepseek-r1-qwen", "kormo", "f2llmv2", "megrez", "stablelm2", "hunyuan"},
       .steps = {kQwen2Words},
       .normalize_nfc = true},
      {.names = {"grok-2", "solar-open"}, .steps = {kQwen2Words}},
      {.names = {"qwen35"}, .steps = {kQwen35Words}, .normalize_nfc = true},
      {.names = {"laguna"}, .steps = {kLines, kQwen2Words}},
      {.names = {"llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2",
                 "jina-v5-nano"},
       .steps = {kLlama3Words},
       .ignore_merges = true,
       .add_bos = true},
      {.names = {"dbrx", "smaug-bpe", "glm4", "chatglm-bpe"}, .steps = {kLlama3Words}},
      {.names = {"jais-2"}, .steps = {kJais2Words}},
      {.names = {"minicpm5"}, .steps = {kUpToThreeNumbers, kMiniCpm5Words}, .ignore_merges = true},
      {.names = {"seed-coder"}, .steps = {kSeedCoderWords}},
      {.names = {"ufakzeka"}, .steps = {kUfakzekaWords}},
      {.names = {"bailingmoe", "bailingmoe2", "llada-moe"}, .steps = {kBailingWords}},
      {.names = {"exaone-moe"}, .steps = {kExaoneMoeWords}},
      {.names = {"tekken"}, .steps = {kTekkenWords}, .ignore_merges = true, .add_bos = true},
      {.names = {"gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2"}, .steps = {kGpt4oWords}},
      {.names = {"granite-embed-multi-97m"}, .steps = {kGpt4oWords}, .ignore_merges = true},
      {.names = {"tiny_aya", "cohere2moe"}, .steps = {Splitter::bounded_threes, kGpt4oWords}},
      {.names = {"youtu"}, .steps = {kYoutuEastAsian, kYoutuWords}, .ignore_merges = true},
      {.names = {"kimi-k2"}, .steps = {kKimiK2Words}},
      {.names = {"superbpe"}, .steps = {R"(\p{N}+)", Splitter::before_threes}},
      {.names = {"afmoe"}, .steps = {Splitter::number_threes, kAfmoeAsian, kDeepSeek3Words}},
      {.names = {"deepseek-llm"},
       .steps = {R"([\r\n])", kDeepSeekLetters, kDeepSeekPunctuation, kSpaceAtEnd, kDeepSeekEastAsian, R"(\p{N}+)"}},
      {.names = {"deepseek-coder"},
       .steps = {R"([\r\n])", R"(\s?\p{L}+)", R"(\s?\p{P}+)", kDeepSeekEastAsian, kNumber}},
      {.names = {"deepseek-v3", "hunyuan-dense", "joyai-llm", "hy_v4"},
       .steps = {kUpToThreeNumbers, kHanAndKana, kDeepSeek3Words}},
      {.names = {"spark2_5"}, .steps = {kUpToThreeNumbers, kHanAndKana, kSparkWords, kNumber}},
      {.names = {"falcon"}, .steps = {R"([\p{P}\$\+<=>\^~\|`]+)", kGpt2Words, "[0-9][0-9][0-9]"}},
      {.names = {"bloom", "poro-chat", "gpt3-finnish"}, .steps = {kBloomWords}},
      {.names = {"viking"}, .steps = {kBloomWords, kNumber}},
      {.names = {"chameleon"},
       .steps = {"<sentinel:[0-9]+>", "IMGIMG[A-I]{1,4}Z", R"([\t\n]|    |  )", kNumber, R"([\p{P}!-/:-@\[-`{-~])",
                 kGpt2Words},
       .add_bos = true},
      {.names = {"gemma4", "granite-embed-multi-311m"}, .steps = {kLines}, .add_bos = true, .whole_characters = true},
      {.names = {"sarvam-moe"}, .steps = {kLines}, .whole_characters = true},
      {.names = {"whitespace"}, .steps = {R"(\S+)"}, .whole_characters = true, .drops_space = true},
      {.names = {"default", ""}, .steps = {R"([\p{P}\$\+<=>\^~\|]+)", kGpt2Words, R"(\p{N}+)", "[0-9][0-9][0-9]"}},
  };
  return table;
}

const PretokenizerRule& find_pretokenizer_rule(std::string_view name) {
  std::string known;
  for (const PretokenizerRule& rule : pretokenizer_rules()) {
    for (const std::string_view candidate : rule.names) {
      if (candidate == name) return rule;
      if (!candidate.empty()) known += fmt::format("{}'{}'", known.empty() ? "" : ", ", candidate);
    }
  }
  fail(
      ErrorCode::unsupported,
      "the pre-tokenizer rule '{}' (tokenizer.ggml.pre) is not known; known are {}. If the model splits text as one of "
      "these does, choose it with --pre NAME",
      name, known);
}

}  // namespace minfer::tokenizer
