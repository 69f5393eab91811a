#include "credentials/secret_file.h"

#include <sys/stat.h>

#include "credentials/provider_answer.h"
#include "sys/syscall.h"
#include "sys/text_file.h"
#include "vault/wiping_resource.h"

namespace osb::credentials {

Result<vault::SecretText> read_secret_file(const std::filesystem::path& path) {
  const auto unavailable = [&](std::string_view why) {
    return fail(Code::Unavailable, path.string() + ": " + std::string(why));
  };
  // Not blocking: a pipe in the file's place must not stop the server.
  const auto file = sys::open_at(AT_FDCWD, path, O_RDONLY | O_NONBLOCK);
  if (!file) return fail(Code::Unavailable, file.error().message);
  struct stat status{};
  if (::fstat(file->get(), &status) < 0) return unavailable("its mode cannot be read");
  if (!S_ISREG(status.st_mode)) return unavailable("is no regular file");
  if ((status.st_mode & S_IRWXO) != 0) return unavailable("other users may open it; chmod o= makes it good");
  auto text = sys::read_text(file->get(), path, kMostBytes + 2);
  if (!text) return fail(Code::Unavailable, text.error().message);
  const vault::WipedString held(std::move(*text));
  auto value = parse_value(held.text);
  if (!value) return unavailable(value.error().message);
  return value;
}

}  // namespace osb::credentials
