// Unicode normalisation form C, which some published tokenizers apply to text before they split it. ICU does the work;
// text that is in the form already is returned as it is. ICU sorts a run of combining marks by insertion, quadratic in
// the run's length, so long runs are sorted here before, which changes nothing in the result.
// Pure; any thread.
#pragma once

#include <string>
#include <string_view>

namespace minfer::tokenizer {

// Form C of well-formed UTF-8 `text`: `text` itself, or a view of `storage`, which then holds the result.
// Errors: internal where ICU fails.
std::string_view normalize_nfc(std::string_view text, std::string& storage);

}  // namespace minfer::tokenizer
