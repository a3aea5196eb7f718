#pragma once

// The type-erased form of a node's callable, for the engine. No other file erases these types.

#include <cstddef>
#include <exception>
#include <functional>
#include <new>
#include <optional>
#include <stop_token>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>

#include "cohort/base/result.h"
#include "cohort/graph/internal/run_values.h"
#include "cohort/provider/router.h"
#include "cohort/task/task.h"

namespace cohort {

/// Describes the current attempt of a node. A node's callable may take a NodeContext& as its first parameter.
struct NodeContext {
  Time deadline = Time::max();        ///< When the result must be there.
  std::stop_token stop{};             ///< Requests a stop when the time is over or no node needs the result any more.
  std::uint32_t attempt = 1;          ///< The number of the attempt, from 1.
  const Attempt* provider = nullptr;  ///< The provider to ask, for a node with a pool.
};

namespace internal {

/// Receives the end of an attempt.
class NodeEnd {
 public:
  /// Returns the place for the value. Null if the attempt ended too late; its value is then dropped.
  virtual void* claim() = 0;
  /// After claim(): the value was made.
  virtual void made() = 0;
  /// After claim(): making the value threw.
  virtual void not_made(Error error) = 0;
  /// The attempt failed without a value.
  virtual void fail(Error error) = 0;

 protected:
  ~NodeEnd() = default;
};

/// A node's callable without its types.
class NodeBody {
 public:
  virtual ~NodeBody() = default;
  [[nodiscard]] virtual std::size_t value_size() const = 0;
  [[nodiscard]] virtual std::size_t value_alignment() const = 0;
  virtual void destroy(void* value) const = 0;
  [[nodiscard]] virtual bool is_coroutine() const = 0;
  [[nodiscard]] virtual bool takes_context() const = 0;
  virtual void run(const RunValues& run, NodeContext& context, NodeEnd& end) const = 0;
  virtual Task<void> run_async(const RunValues& run, NodeContext& context, NodeEnd& end) const = 0;
};

template <class R>
struct NodeValueOf {
  using Type = std::decay_t<R>;
};
template <>
struct NodeValueOf<void> {
  using Type = std::monostate;
};
template <class T>
struct NodeValueOf<Result<T>> : NodeValueOf<T> {};
template <class T>
struct NodeValueOf<std::variant<T, Failure>> : NodeValueOf<T> {};
template <class T>
struct NodeValueOf<Task<T>> : NodeValueOf<T> {};

template <class R>
struct InnerOf {
  using Type = R;
};
template <class T>
struct InnerOf<Task<T>> {
  using Type = T;
};

/// The parameter type of an input: `const T&`, or `const T*` for an optional input.
template <class T, bool kOptional>
struct NodeInput {
  using Argument = std::conditional_t<kOptional, const T*, const T&>;
  static Argument read(const RunValues& run, std::uint32_t index) {
    const T* value = static_cast<const T*>(run.value(index));
    if constexpr (kOptional) {
      return value;
    } else {
      return *value;
    }
  }
};

/// Finds out which parameters a callable takes before its inputs: the context, the request, both or none.
template <class F, class Request, class... Arguments>
struct NodeCall {
  static constexpr bool kBoth = std::is_invocable_v<const F&, NodeContext&, const Request&, Arguments...>;
  static constexpr bool kRequest = !kBoth && std::is_invocable_v<const F&, const Request&, Arguments...>;
  static constexpr bool kContext = !kBoth && !kRequest && std::is_invocable_v<const F&, NodeContext&, Arguments...>;
  static constexpr bool kNeither = !kBoth && !kRequest && !kContext && std::is_invocable_v<const F&, Arguments...>;
  static constexpr bool kTakesContext = kBoth || kContext;

  static decltype(auto) call(const F& f, [[maybe_unused]] NodeContext& context, [[maybe_unused]] const Request& request,
                             Arguments... arguments) {
    static_assert(
        kBoth || kRequest || kContext || kNeither,
        "a node's callable takes (NodeContext&, const Request&, inputs...), without the context, the request or "
        "both if it likes; an input is a const T&, an optional one a const T*; it must be callable as const");
    if constexpr (kBoth) {
      return std::invoke(f, context, request, static_cast<Arguments>(arguments)...);
    } else if constexpr (kRequest) {
      return std::invoke(f, request, static_cast<Arguments>(arguments)...);
    } else if constexpr (kContext) {
      return std::invoke(f, context, static_cast<Arguments>(arguments)...);
    } else {
      return std::invoke(f, static_cast<Arguments>(arguments)...);
    }
  }
  using Returned = decltype(call(std::declval<const F&>(), std::declval<NodeContext&>(), std::declval<const Request&>(),
                                 std::declval<Arguments>()...));
  using Value = typename NodeValueOf<Returned>::Type;
};

template <class Request, class F, class... Inputs>
class TypedNodeBody final : public NodeBody {
 public:
  using Call = NodeCall<F, Request, typename Inputs::Argument...>;
  using Returned = typename Call::Returned;
  using Value = typename Call::Value;

  TypedNodeBody(F callable, std::array<std::uint32_t, sizeof...(Inputs)> inputs, const std::shared_ptr<Router>& pool)
      : callable_(std::move(callable)), inputs_(inputs), pool_(pool) {}

  [[nodiscard]] std::size_t value_size() const override { return sizeof(Value); }
  [[nodiscard]] std::size_t value_alignment() const override { return alignof(Value); }
  void destroy(void* value) const override { static_cast<Value*>(value)->~Value(); }
  [[nodiscard]] bool is_coroutine() const override { return is_task_v<Returned>; }
  [[nodiscard]] bool takes_context() const override { return Call::kTakesContext; }

  void run(const RunValues& run, NodeContext& context, NodeEnd& end) const override {
    if constexpr (!is_task_v<Returned>) {
      if (pool_ == nullptr) {
        leave(end, caught([&] { return answer([&]() -> decltype(auto) { return call(run, context); }); }));
        return;
      }
      leave(end, caught([&]() -> Result<Value> {
              return pool_
                  ->call(
                      [&](const Attempt& attempt) {
                        enter(context, attempt);
                        return answer([&]() -> decltype(auto) { return call(run, context); });
                      },
                      request_of(context))
                  .result;
            }));
    }
  }

  Task<void> run_async(const RunValues& run, NodeContext& context, NodeEnd& end) const override {
    if constexpr (is_task_v<Returned>) {
      std::optional<Result<Value>> result;
      try {
        if (pool_ == nullptr) {
          result.emplace(as_result(co_await async_answer(run, context)));
        } else {
          auto routed = co_await pool_->call_async(AsyncTry{this, &run, &context}, request_of(context));
          result.emplace(std::move(routed.result));
        }
      } catch (...) {
        result.emplace(Error::from_exception(std::current_exception()));
      }
      leave(end, std::move(*result));
    }
    co_return;
  }

 private:
  static CallOptions request_of(const NodeContext& context) {
    return CallOptions().with_deadline(context.deadline).with_stop(context.stop).as_retry(context.attempt > 1);
  }
  static void enter(NodeContext& context, const Attempt& attempt) {
    context.provider = &attempt;
    context.deadline = attempt.deadline;
  }

  Returned call(const RunValues& run, NodeContext& context) const {
    return [&]<std::size_t... kPlaces>(std::index_sequence<kPlaces...>) -> Returned {
      return Call::call(callable_, context, *static_cast<const Request*>(run.request()),
                        Inputs::read(run, inputs_[kPlaces])...);
    }(std::index_sequence_for<Inputs...>());
  }

  // Inner is the return type without Task. Answer is the form of it that a Router understands.
  using Inner = typename InnerOf<Returned>::Type;
  static constexpr bool kTellsFailures = std::is_same_v<std::decay_t<Inner>, std::variant<Value, Failure>>;
  using Answer = std::conditional_t<kTellsFailures, std::variant<Value, Failure>, Result<Value>>;

  template <class Get>
  static Answer answer(Get get) {
    if constexpr (std::is_void_v<Inner>) {
      get();
      return Value();
    } else if constexpr (std::is_same_v<std::decay_t<Inner>, Result<void>>) {
      const Result<void> result = get();
      return result.ok() ? Answer(Value()) : Answer(result.error());
    } else {
      return get();
    }
  }

  Task<Answer> async_answer(const RunValues& run, NodeContext& context) const {
    if constexpr (is_task_v<Returned>) {
      Returned task = call(run, context);
      if constexpr (std::is_void_v<Inner>) {
        co_await std::move(task);
        co_return Answer(Value());
      } else {
        Inner inner = co_await std::move(task);
        co_return answer([&]() -> Inner&& { return std::move(inner); });
      }
    } else {
      std::terminate();  // Never called for a plain callable.
      co_return Answer(Error());
    }
  }

  // One try through a pool.
  struct AsyncTry {
    const TypedNodeBody* body;
    const RunValues* run;
    NodeContext* context;
    Task<Answer> operator()(const Attempt& attempt) const {
      enter(*context, attempt);
      return body->async_answer(*run, *context);
    }
  };

  template <class R>
  static Result<Value> as_result(R&& returned) {
    if constexpr (std::is_same_v<std::decay_t<R>, std::variant<Value, Failure>>) {
      if (Failure* failure = std::get_if<Failure>(&returned)) return std::move(failure->error);
      return std::get<Value>(std::forward<R>(returned));
    } else {
      return std::forward<R>(returned);
    }
  }

  template <class Get>
  static Result<Value> caught(Get get) {
    try {
      return as_result(get());
    } catch (...) {
      return Error::from_exception(std::current_exception());
    }
  }

  static void leave(NodeEnd& end, Result<Value>&& result) {
    if (!result.ok()) return end.fail(result.error());
    void* const place = end.claim();
    if (place == nullptr) return;
    try {
      ::new (place) Value(std::move(*result));
      end.made();
    } catch (...) {
      end.not_made(Error::from_exception(std::current_exception()));
    }
  }

  F callable_;
  std::array<std::uint32_t, sizeof...(Inputs)> inputs_;
  const std::shared_ptr<Router>& pool_;  // A reference to NodeSpec::pool, which may be set later.
};

}  // namespace internal
}  // namespace cohort
