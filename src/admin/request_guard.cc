#include "admin/request_guard.h"

#include <algorithm>

namespace cohort {
namespace {

bool equals_ignoring_case(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](char x, char y) {
    const auto low = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
    return low(x) == low(y);
  });
}

bool is_port(std::string_view text) {
  return !text.empty() && text.size() <= 5 && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

bool is_loopback_number(std::string_view name) {
  return name.starts_with("127.") && std::ranges::count(name, '.') == 3 && name.find("..") == std::string_view::npos &&
         name.back() != '.' && std::ranges::all_of(name, [](char c) { return (c >= '0' && c <= '9') || c == '.'; });
}

}  // namespace

bool is_loopback_host(std::string_view host) {
  if (host.starts_with("[::1]")) {
    host.remove_prefix(5);
    return host.empty() || (host.front() == ':' && is_port(host.substr(1)));
  }
  const std::size_t colon = host.find(':');
  if (colon != std::string_view::npos && !is_port(host.substr(colon + 1))) return false;
  const std::string_view name = host.substr(0, colon);
  return equals_ignoring_case(name, "localhost") || is_loopback_number(name);
}

std::optional<Problem> refuse(const RequestHead& head) {
  const auto forbidden = [](std::string detail) { return Problem{403, "forbidden", std::move(detail)}; };
  if (head.hosts != 1 || head.host.empty()) return Problem{400, "invalid", "a request needs one Host header"};
  if (!is_loopback_host(head.host)) {
    return forbidden("this node answers to 127.0.0.1, localhost and [::1] only; the Host header names another");
  }
  if (!head.origin.empty() && !equals_ignoring_case(head.origin, "http://" + std::string(head.host))) {
    return forbidden("requests from pages of other origins are refused");
  }
  if (!head.fetch_site.empty() && head.fetch_site != "same-origin" && head.fetch_site != "none") {
    return forbidden("requests from pages of other sites are refused");
  }
  const std::string_view type = head.content_type.substr(0, head.content_type.find(';'));
  if (head.has_body && !equals_ignoring_case(type, "application/json")) {
    return Problem{415, "invalid", "the body must be application/json"};
  }
  return std::nullopt;
}

}  // namespace cohort
