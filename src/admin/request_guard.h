#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "api/problem.h"

namespace cohort {

/// What of a request's head decides whether it may ask at all.
struct RequestHead {
  std::string_view method = {};
  std::string_view host = {};
  std::string_view origin = {};
  std::string_view fetch_site = {};  ///< Sec-Fetch-Site, as browsers set it.
  std::string_view content_type = {};
  bool has_body = false;
  std::size_t hosts = 1;  ///< How many Host headers there were.
};

/// Why a request is refused before anybody looks at what it wants: it names another host than this machine (a web page
/// whose name was pointed here), comes from a page of another origin, or brings something else than JSON (which is all
/// that a page can send without asking first). Nothing: it may go on.
[[nodiscard]] std::optional<Problem> refuse(const RequestHead& head);

/// "127.0.0.1:7070", "localhost", "[::1]:80": a name of this machine itself.
[[nodiscard]] bool is_loopback_host(std::string_view host);

}  // namespace cohort
