// OpenSSL's digests, which use the processor's SHA instructions; no other file includes its headers.
#include "io/digest.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <vector>

#include "base/check.h"

namespace headrace::io {
namespace {

struct Descriptor {
  int value;
  ~Descriptor() { ::close(value); }
};

}  // namespace

Result<std::string> digest_of_file(const std::string& path, DigestKind kind) {
  const int opened = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (opened < 0) return error(Code::not_found, "cannot open {}: {}", path, std::strerror(errno));
  const Descriptor file{opened};
  struct stat info {};
  if (::fstat(file.value, &info) != 0) return error(Code::not_found, "cannot read {}: {}", path, std::strerror(errno));

  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(), &EVP_MD_CTX_free);
  CHECK(context != nullptr);
  CHECK(EVP_DigestInit_ex(context.get(), kind == DigestKind::sha256 ? EVP_sha256() : EVP_sha1(), nullptr) == 1);
  if (kind == DigestKind::git_blob_sha1) {
    const std::string head = fmt::format("blob {}", info.st_size);
    EVP_DigestUpdate(context.get(), head.c_str(), head.size() + 1);  // with its 0
  }
  std::vector<char> buffer(size_t{1} << 20);
  while (true) {
    const ssize_t got = ::read(file.value, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return error(Code::unavailable, "cannot read {}: {}", path, std::strerror(errno));
    if (got == 0) break;
    EVP_DigestUpdate(context.get(), buffer.data(), static_cast<size_t>(got));
  }
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  EVP_DigestFinal_ex(context.get(), digest, &size);
  std::string hex;
  for (unsigned i = 0; i < size; ++i) hex += fmt::format("{:02x}", digest[i]);
  return hex;
}

}  // namespace headrace::io
