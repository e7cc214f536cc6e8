#pragma once
// Digests of files, as hubs name them.

#include <string>

#include "base/status.h"

namespace headrace::io {

enum class DigestKind {
  sha256,         // of the bytes: 64 hexadecimal digits
  git_blob_sha1,  // of "blob SIZE\0" and the bytes, as git names a file: 40
};

// Lower-case hexadecimal. Reads the file once, in pieces. Errors: not_found, unavailable (a read that failed).
Result<std::string> digest_of_file(const std::string& path, DigestKind kind);

}  // namespace headrace::io
