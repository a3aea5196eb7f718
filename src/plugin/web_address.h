#pragma once

#include <string>

#include "cohort/base/result.h"

namespace cohort {

/// What there is to know of an http or https URL before it is called.
struct WebAddress {
  std::string origin = {};  ///< "https://example.com:443", always with its port.
  std::string path = {};
  bool has_query = false;
  bool has_fragment = false;

  /// For people: without name and password, query and fragment.
  [[nodiscard]] std::string shown() const { return origin + path; }
};

/// kInvalid: it is none.
[[nodiscard]] Result<WebAddress> parse_web_address(const std::string& url);

}  // namespace cohort
