#include "cohort/base/event.h"

#include <algorithm>

namespace cohort {

const Event::Value* Event::find(std::string_view name) const {
  const auto field = std::ranges::find(fields_, name, &Field::name);
  return field == fields_.end() ? nullptr : &field->value;
}

}  // namespace cohort
