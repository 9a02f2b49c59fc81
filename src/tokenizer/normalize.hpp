// Unicode normalization, which some published tokenizers apply to text before they split it: form C, form D, and lower
// case character by character. ICU does the work; text that is in the form already is returned as it is. ICU sorts a
// run of combining marks by insertion, quadratic in the run's length, so long runs are sorted here before, which
// changes nothing in the result.
// Pure; any thread.
#pragma once

#include <string>
#include <string_view>

namespace minfer::tokenizer {

// Form C, form D or the lower case of well-formed UTF-8 `text`: `text` itself, or a view of `storage`, which then holds
// the result. `text` is no view of `storage`. Errors: internal where ICU fails.
std::string_view normalize_nfc(std::string_view text, std::string& storage);
std::string_view normalize_nfd(std::string_view text, std::string& storage);
// The full lower case of each character for itself, so that a sigma at a word's end is as any other.
std::string_view lowercase(std::string_view text, std::string& storage);

}  // namespace minfer::tokenizer
