#include "cohort/graph/internal/run_state.h"

#include <algorithm>
#include <new>
#include <utility>

#include "cohort/base/internal/block_pool.h"
#include "cohort/graph/internal/graph_engine.h"
#include "graph/node_record.h"

namespace cohort::internal {
namespace {

std::size_t aligned(std::size_t offset, std::size_t alignment) {
  return (offset + alignment - 1) / alignment * alignment;
}

}  // namespace

Ref<RunState> RunState::make(std::shared_ptr<GraphEngine> engine, std::size_t request_size,
                             std::size_t request_alignment) {
  const GraphPlan& plan = engine->plan();
  const std::size_t count = plan.nodes.size();
  const std::size_t slots = aligned(sizeof(RunState), alignof(NodeSlot));
  const std::size_t values = aligned(slots + count * sizeof(NodeSlot), plan.values_alignment);
  const std::size_t request = aligned(values + plan.values_size, request_alignment);
  const std::size_t size = request + request_size;
  const std::size_t alignment =
      std::max({alignof(RunState), alignof(NodeSlot), plan.values_alignment, request_alignment});

  // Small ones come from the pool, whose blocks are aligned as all blocks are by default.
  const bool pooled = alignment <= __STDCPP_DEFAULT_NEW_ALIGNMENT__;
  auto* const block =
      static_cast<std::byte*>(pooled ? allocate_block(size) : ::operator new(size, std::align_val_t(alignment)));
  auto* const run = ::new (block) RunState;
  run->engine_ = std::move(engine);
  run->plan_ = &plan;
  run->slots_ = reinterpret_cast<NodeSlot*>(block + slots);
  run->values_ = block + values;
  run->request_ = block + request;
  run->block_size_ = size;
  run->block_alignment_ = alignment;
  for (std::size_t i = 0; i < count; ++i) {
    NodeSlot& slot = *::new (run->slots_ + i) NodeSlot;
    slot.waits.store(static_cast<std::uint32_t>(plan.nodes[i].spec->inputs.size()), std::memory_order_relaxed);
    slot.needed.store(plan.nodes[i].needed_by, std::memory_order_relaxed);
  }
  run->pending.store(static_cast<std::uint32_t>(count), std::memory_order_relaxed);
  return Ref<RunState>::adopt(run);
}

RunState::~RunState() {
  for (std::size_t i = 0; i < plan_->nodes.size(); ++i) {
    if (slots_[i].made.load(std::memory_order_relaxed)) {
      plan_->nodes[i].spec->body->destroy(values_ + plan_->nodes[i].value_offset);
    }
    slots_[i].~NodeSlot();
  }
  if (destroy_request_ != nullptr) destroy_request_(request_);
}

void RunState::destroy(RunState* run) {
  const std::size_t size = run->block_size_;
  const auto alignment = std::align_val_t(run->block_alignment_);
  const std::shared_ptr<GraphEngine> engine = std::move(run->engine_);  // It has the plan.
  run->~RunState();
  if (static_cast<std::size_t>(alignment) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__) {
    free_block(run, size);
  } else {
    ::operator delete(static_cast<void*>(run), alignment);
  }
}

bool RunState::when_done(Function<void()> call) {
  MutexLock lock(mutex);
  if (done) return false;
  on_done = std::move(call);
  return true;
}

std::vector<std::uint32_t> RunState::critical_path() const {
  std::vector<std::uint32_t> path;
  for (std::uint32_t at = last_ended; at != NodeSlot::kNone;) {
    path.push_back(at);
    at = slots_[at].last_input.load(std::memory_order_relaxed);
  }
  std::ranges::reverse(path);
  return path;
}

}  // namespace cohort::internal
