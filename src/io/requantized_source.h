#pragma once
// A source whose matrices appear in another format: rows are decoded and rounded to nearest when they are read, so that
// whoever reads sees a checkpoint of that format and never learns of another.

#include <memory>
#include <string>
#include <string_view>

#include "io/model_source.h"

namespace headrace::io {

// The format of that name. Errors: invalid_argument for one that Headrace does not round to, naming those it does.
Result<Format> parse_weight_format(std::string_view name);
// Their names, for messages and help.
std::string weight_formats(std::string_view separator);

// Of the tensors with two dimensions named "*.weight" all but tables that are only looked up (positions, segments) appear in
// `format`, one of weight_formats(); for formats of 4 bits the token embedding and the output head appear in q8_0: what they lose
// is lost for every token. What has that format already passes bit for bit; rows that are no whole blocks of it stay as they
// are, with a line in the log. rows() also refuses values that are not finite, before or after rounding.
Result<std::unique_ptr<ModelSource>> requantize(std::unique_ptr<ModelSource> source, Format format);

}  // namespace headrace::io
