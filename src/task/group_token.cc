#include "cohort/task/group_token.h"

#include "cohort/task/internal/task_label.h"

namespace cohort {

namespace internal {

GroupLease::GroupLease(std::string_view stored_key, Ref<Activity> activity)
    : key_(stored_key.data()),
      key_size_(static_cast<std::uint32_t>(stored_key.size())),
      key_hash_(TaskLabel::hash(stored_key)),
      activity_(std::move(activity)) {}

}  // namespace internal

// One byte more than is allowed is kept of what is too long, as in TaskLabel.
GroupToken::GroupToken(std::string_view key)
    : lease_(internal::make_lease<internal::GroupLease>(key.substr(0, internal::TaskLabel::kMaxKeyBytes + 1),
                                                        internal::Ref<internal::Activity>())) {}

}  // namespace cohort
