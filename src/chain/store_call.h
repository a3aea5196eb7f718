#pragma once

#include <utility>

#include "cohort/base/completion.h"
#include "cohort/task/executor.h"
#include "cohort/task/promise.h"

namespace cohort {

/// Turns a call with a completion into a handle: `call` gets the completion and must use it exactly once.
template <class T, class Call>
TaskHandle<T> as_handle(Executor& executor, const char* name, Call&& call) {
  Promise<T> promise(name, {}, executor.clock());
  TaskHandle<T> handle = promise.handle();
  call(Completion<T>([promise = std::move(promise)](Result<T> result) mutable { promise.settle(std::move(result)); }));
  return handle;
}

/// A handle that has failed.
template <class T>
TaskHandle<T> failed_handle(Executor& executor, const char* name, Error error) {
  return as_handle<T>(executor, name, [&](Completion<T> done) { done(std::move(error)); });
}

}  // namespace cohort
