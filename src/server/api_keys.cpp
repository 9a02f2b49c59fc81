// Comparing keys. See api_keys.hpp.
// Every key is compared with every known one, whether or not one fits already.
#include "server/api_keys.hpp"

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <algorithm>

namespace minfer::server {
namespace {

// The token of "Bearer TOKEN", whatever the case of "Bearer"; empty for any other scheme.
std::string_view bearer_token(std::string_view authorization) {
  constexpr std::string_view kScheme = "bearer ";
  const auto is_same = [](char a, char b) { return (a >= 'A' && a <= 'Z' ? a - 'A' + 'a' : a) == b; };
  if (authorization.size() < kScheme.size() ||
      !std::equal(kScheme.begin(), kScheme.end(), authorization.begin(),
                  [&](char lower, char given) { return is_same(given, lower); })) {
    return {};
  }
  authorization.remove_prefix(kScheme.size());
  return authorization.substr(std::min(authorization.find_first_not_of(' '), authorization.size()));
}

}  // namespace

ApiKeys::ApiKeys(const std::vector<std::string>& keys) {
  for (const std::string& key : keys) sums_.push_back(sum_of(key));
}

ApiKeys::Sum ApiKeys::sum_of(std::string_view key) {
  Sum sum;
  static_assert(kSumBytes == SHA256_DIGEST_LENGTH);
  SHA256(reinterpret_cast<const unsigned char*>(key.data()), key.size(), sum.data());
  return sum;
}

bool ApiKeys::accepts(std::string_view authorization) const {
  const Sum given = sum_of(bearer_token(authorization));
  int matches = 0;
  for (const Sum& sum : sums_) matches |= CRYPTO_memcmp(sum.data(), given.data(), given.size()) == 0 ? 1 : 0;
  return matches != 0;
}

}  // namespace minfer::server
