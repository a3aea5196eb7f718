#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/client.h"

namespace cohort {

/// A list that the node gives page by page, as far as it was asked for.
struct Listing {
  nlohmann::json items = nlohmann::json::array();
  std::string cursor{};  ///< Not empty: there is more.

  /// As the API writes a page.
  [[nodiscard]] nlohmann::json to_json(const std::string& key) const;
};

inline constexpr std::size_t kMaxListed = 100'000;  ///< Of one command, --all or not.

/// Reads `key` of `path`, page after page, until there are `limit` or no more.
[[nodiscard]] Result<Listing> list_pages(ApiClient& client, Operation operation, const Query& query,
                                         const std::string& key, std::size_t limit);

}  // namespace cohort
