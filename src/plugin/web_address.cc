#include "plugin/web_address.h"

#include <curl/curl.h>

#include <algorithm>
#include <memory>
#include <utility>

namespace cohort {
namespace {

constexpr std::size_t kMaxUrlBytes = 8192;

struct UrlDeleter {
  void operator()(CURLU* url) const { curl_url_cleanup(url); }
};

std::string part_of(CURLU* url, CURLUPart which, unsigned flags = 0) {
  char* text = nullptr;
  if (curl_url_get(url, which, &text, flags) != CURLUE_OK) return {};
  std::string copy(text);
  curl_free(text);
  return copy;
}

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c; }

bool is_plain(char c) { return c > ' ' && c < '\x7f' && c != '{' && c != '}' && c != '\\'; }

}  // namespace

Result<WebAddress> parse_web_address(const std::string& text) {
  const auto invalid = [](std::string why) { return Error{ErrorCode::kInvalid, std::move(why)}; };
  if (text.size() > kMaxUrlBytes) return invalid("the URL has more than 8192 bytes");
  if (!std::ranges::all_of(text, is_plain)) {
    return invalid("the URL has a blank, a brace or the like in it, which is written as % and two digits");
  }
  const std::unique_ptr<CURLU, UrlDeleter> url(curl_url());
  const CURLUcode code = curl_url_set(url.get(), CURLUPART_URL, text.c_str(), CURLU_NON_SUPPORT_SCHEME);
  if (code != CURLUE_OK) return invalid(std::string("this is no URL: ") + curl_url_strerror(code));
  const std::string scheme = part_of(url.get(), CURLUPART_SCHEME);
  if (scheme != "http" && scheme != "https") return invalid("a URL begins with http:// or https://, not " + scheme);
  std::string host = part_of(url.get(), CURLUPART_HOST);
  std::ranges::transform(host, host.begin(), lower);
  WebAddress address;
  address.origin = scheme + "://" + host + ":" + part_of(url.get(), CURLUPART_PORT, CURLU_DEFAULT_PORT);
  address.path = part_of(url.get(), CURLUPART_PATH);
  address.has_query = text.find('?') != std::string::npos;
  address.has_fragment = text.find('#') != std::string::npos;
  return address;
}

}  // namespace cohort
