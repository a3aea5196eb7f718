#include "cli/paging.h"

#include <algorithm>
#include <utility>

#include "cli/fields.h"

namespace cohort {

using nlohmann::json;

namespace {

constexpr std::size_t kMaxPage = 1000;

}  // namespace

json Listing::to_json(const std::string& key) const {
  json out = {{key, items}};
  if (!cursor.empty()) out["cursor"] = cursor;
  return out;
}

Result<Listing> list_pages(ApiClient& client, Operation operation, const Query& query, const std::string& key,
                           std::size_t limit) {
  Listing listing;
  limit = std::min(limit, kMaxListed);
  while (listing.items.size() < limit) {
    Query page_query = query;
    page_query.emplace_back("limit", std::to_string(std::min(kMaxPage, limit - listing.items.size())));
    page_query.emplace_back("cursor", listing.cursor);
    const Result<json> page = client.look(operation, page_query);
    if (!page) return page.error();
    const json& items = list(*page, key.c_str());
    for (const json& each : items) listing.items.push_back(each);
    const std::string cursor = raw_text(*page, "cursor");
    // A page may be empty and lead on, when nothing of what was looked at matched; one that leads to itself ends.
    const bool leads_on = cursor != listing.cursor;
    listing.cursor = leads_on ? cursor : "";
    if (listing.cursor.empty()) break;
  }
  return listing;
}

}  // namespace cohort
