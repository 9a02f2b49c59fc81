// The filters, in two files by what they work on, and the table that names them (filters.cpp). Oracle: jinja2's
// filters.py and transformers' tojson. Each is a FilterFunction.
#pragma once

#include "chat/jinja/ast.hpp"

namespace minfer::chat::jinja {

// filters_text.cpp
Value filter_capitalize(Interpreter& in, const Value& input, const Arguments& arguments);
Value filter_center(Interpreter& in, const Value& input, const Arguments& arguments);
Value filter_escape(Interpreter& in, const Value& input, const Arguments& arguments);
Value filter_forceescape(Interpreter& in, const Value& input, const Arguments& arguments);
Value filter_format(Interpreter& in, const Value& input, const Arguments& arguments);
Value filter_indent(Interpreter& in, const Value& input, const Arguments& arguments);
Value filter_lower(Interpreter& in, const Value& input, const Arguments& arguments);
Value filter_replace(Interpreter& in, const Value& input, const Arguments& arguments);
Value filter_safe(Interpreter& in, const Value& input, const Arguments& arguments);
Value filter_string(Interpreter& in, const Value& input, const Arguments& arguments);
Value filter_title(Interpreter& in, const Value& input, const Arguments& arguments);
Value filter_tojson(Interpreter& in, const Value& input, const Arguments& arguments);
Value filter_trim(Interpreter& in, const Value& input, const Arguments& arguments);
Value filter_truncate(Interpreter& in, const Value& input, const Arguments& arguments);
Value filter_upper(Interpreter& in, const Value& input, const Arguments& arguments);
Value filter_urlencode(Interpreter& in, const Value& input, const Arguments& arguments);
Value filter_wordcount(Interpreter& in, const Value& input, const Arguments& arguments);

// filters_number.cpp
Value filter_abs(Interpreter& in, const Value& input, const Arguments& arguments);
Value filter_float(Interpreter& in, const Value& input, const Arguments& arguments);
Value filter_int(Interpreter& in, const Value& input, const Arguments& arguments);
Value filter_round(Interpreter& in, const Value& input, const Arguments& arguments);

// filters_sequence.cpp
Value filter_attr(Interpreter& in, const Value& input, const Arguments& arguments);
Value filter_batch(Interpreter& in, const Value& input, const Arguments& arguments);
Value filter_default(Interpreter& in, const Value& input, const Arguments& arguments);
Value filter_first(Interpreter& in, const Value& input, const Arguments& arguments);
Value filter_items(Interpreter& in, const Value& input, const Arguments& arguments);
Value filter_join(Interpreter& in, const Value& input, const Arguments& arguments);
Value filter_last(Interpreter& in, const Value& input, const Arguments& arguments);
Value filter_length(Interpreter& in, const Value& input, const Arguments& arguments);
Value filter_list(Interpreter& in, const Value& input, const Arguments& arguments);
Value filter_map(Interpreter& in, const Value& input, const Arguments& arguments);
Value filter_reject(Interpreter& in, const Value& input, const Arguments& arguments);
Value filter_rejectattr(Interpreter& in, const Value& input, const Arguments& arguments);
Value filter_reverse(Interpreter& in, const Value& input, const Arguments& arguments);
Value filter_select(Interpreter& in, const Value& input, const Arguments& arguments);
Value filter_selectattr(Interpreter& in, const Value& input, const Arguments& arguments);
Value filter_slice(Interpreter& in, const Value& input, const Arguments& arguments);

// filters_order.cpp
Value filter_dictsort(Interpreter& in, const Value& input, const Arguments& arguments);
Value filter_groupby(Interpreter& in, const Value& input, const Arguments& arguments);
Value filter_max(Interpreter& in, const Value& input, const Arguments& arguments);
Value filter_min(Interpreter& in, const Value& input, const Arguments& arguments);
Value filter_sort(Interpreter& in, const Value& input, const Arguments& arguments);
Value filter_sum(Interpreter& in, const Value& input, const Arguments& arguments);
Value filter_unique(Interpreter& in, const Value& input, const Arguments& arguments);

// The value at an attribute path ("a.b.0", an integer, or none for the item itself), as jinja2's make_attrgetter.
// `otherwise` (may be null) replaces undefined steps.
Value follow_path(Interpreter& in, const Value& item, const Value& path, const Value* otherwise);

}  // namespace minfer::chat::jinja
