#include "backend/postgres/postgres_store_impl.h"

#include <algorithm>
#include <charconv>
#include <future>
#include <random>
#include <string_view>
#include <utility>

#include "backend/postgres/schema.h"
#include "backend/postgres/statements.h"
#include "cohort/base/log.h"

namespace cohort {

using postgres::Answers;
using postgres::Failure;
using postgres::Link;
using postgres::Parameters;
using postgres::Purpose;
using postgres::Row;
using postgres::Statement;

namespace {

const Statement kRenewBoot = {
    "renew",
    "UPDATE boots SET renewals = renewals + 1, lease = $2::bigint WHERE boot = $1::text AND NOT "
    "dead RETURNING renewals"};
const Statement kComeBack = {"come_back",
                             "UPDATE boots SET came_back = true WHERE boot = $1::text AND dead AND NOT came_back"};
// The boots that live, as far as is known; in the first row, whether tasks have an owner that does not.
const Statement kAlive = {
    "alive",
    "SELECT '', 0::bigint, 0::bigint, EXISTS (SELECT 1 FROM tasks t WHERE t.owner IS NOT NULL AND t.state IN (1, 2) "
    "AND "
    "t.format <= $1::bigint AND NOT EXISTS (SELECT 1 FROM boots o WHERE o.boot = t.owner AND NOT o.dead)) UNION ALL "
    "SELECT boot, renewals, lease, false FROM boots WHERE NOT dead"};

const Statement kSubmitted = {"submitted",
                              "SELECT seq, grp FROM submitted WHERE at > ((extract(epoch FROM clock_timestamp()) * "
                              "1000000)::bigint - $1::bigint) ORDER BY at DESC LIMIT 10000"};

const Statement kRemoveSubmitted = {"remove_submitted",
                                    "WITH gone AS (DELETE FROM submitted WHERE seq IN (SELECT seq FROM submitted WHERE "
                                    "at <= ((extract(epoch FROM clock_timestamp()) * 1000000)::bigint - $1::bigint) "
                                    "ORDER BY at LIMIT 10000) RETURNING 1) SELECT count(*) FROM gone"};

constexpr std::int64_t kMicros = 1'000'000;

std::string make_instance() {
  std::random_device device;
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string id;
  for (int i = 0; i < 16; ++i) id += kDigits[device() % 16];
  return id;
}

PostgresOptions completed(PostgresOptions options) {
  if (!options.offset) options.offset = [] { return Duration::zero(); };
  options.writers = std::clamp(options.writers, 1U, 4U);
  options.max_batch = std::clamp(options.max_batch, 1U, 10'000U);
  return options;
}

}  // namespace

PostgresStore::Impl::Impl(PostgresOptions options)
    : options_(completed(std::move(options))),
      version_(options_.version.value_or(postgres::schema_version())),
      instance_(make_instance()),
      channel_("cohort_" + options_.schema),
      lease_clock_(options_.lease_clock != nullptr ? *options_.lease_clock : boottime_clock()) {
  settings_ = {
      .format = version_,
      .max_batch = options_.max_batch,
      .patience = options_.patience,
      .offset = options_.offset,
      .committed = [this](const StoreNews& news, bool has_events) { committed(news, has_events); },
      .failed = [this](const Failure& failure) { note_failure(failure); },
      .worked = [this] { note_success(); },
      .notification = [this](const StoreNews& news, bool has_events) { return notification_of(news, has_events); },
      .channel = channel_};
}

Result<void> PostgresStore::Impl::open() {
  postgres::ServerNote note;
  auto connection = postgres::connect(options_, Purpose::kWrite, note);
  if (!connection) return connection.error();
  auto prepared = postgres::prepare_schema(connection->get(), options_.schema, options_.migrate, version_);
  if (!prepared) return prepared;
  note_timeline(note.timeline);
  make_links();
  loop_.start();
  loop_.post([this] {
    readers_.at(static_cast<std::size_t>(Line::kLeases)).link->open();  // The first to be there.
    for (const auto& each : writers_) each->open();
    for (const Line line : {Line::kRows, Line::kScans}) readers_.at(static_cast<std::size_t>(line)).link->open();
    listener_->open();
    leader_->open();
    look_for_submitted();
  });
  return {};
}

PostgresStore::Impl::~Impl() {
  is_closing_ = true;
  if (!leader_) return;
  const auto resigned = std::make_shared<std::promise<void>>();
  loop_.post([this, resigned] { leader_->resign([resigned] { resigned->set_value(); }); });
  static_cast<void>(resigned->get_future().wait_for(std::chrono::seconds(1)));
  std::promise<void> closed;
  loop_.post([&] {
    loop_.call_all_timers();
    for (const auto& each : writers_) each->close();
    for (Reader& each : readers_) {
      each.link->close();
      for (const AskedRef& asked : std::exchange(each.waiting, {})) {
        asked->told({.failure = Failure{"", "the store has been closed"}});
      }
    }
    listener_->close();
    leader_->close();
    closed.set_value();
  });
  closed.get_future().wait();
  loop_.stop();
}

// --- connections

postgres::Connect PostgresStore::Impl::connector(Purpose purpose) {
  return [this, purpose]() -> Result<postgres::ConnectionRef> {
    postgres::ServerNote note;
    auto connection = postgres::connect(options_, purpose, note);
    if (!connection) return connection.error();
    if (purpose == Purpose::kListen) {
      const std::string sql = "LISTEN " + postgres::quoted(channel_);
      const postgres::ResultRef listening(PQexec(connection->get(), sql.c_str()), &PQclear);
      if (PQresultStatus(listening.get()) != PGRES_COMMAND_OK) {
        return Error{ErrorCode::kUnavailable, std::string("LISTEN failed: ") + PQerrorMessage(connection->get())};
      }
    }
    note_timeline(note.timeline);
    return connection;
  };
}

void PostgresStore::Impl::make_links() {
  for (std::uint32_t i = 0; i < options_.writers; ++i) {
    writers_.push_back(std::make_unique<postgres::Writer>(loop_, connector(Purpose::kWrite), settings_));
  }
  for (const Line line : {Line::kRows, Line::kScans, Line::kLeases}) {
    Reader& each = readers_.at(static_cast<std::size_t>(line));
    const auto down = [this, &each](const Failure& failure) {
      note_failure(failure);
      give_up_old(each, failure);
    };
    each.link = std::make_unique<Link>(loop_, connector(line == Line::kScans ? Purpose::kScan : Purpose::kRead),
                                       Link::Hooks{.up = [this, &each] { go_on(each); }, .down = down});
    loop_.add(*each.link);
  }
  // What was told while nobody listened is not told again: watchers look at everything.
  listener_ =
      std::make_unique<Link>(loop_, connector(Purpose::kListen),
                             Link::Hooks{.up = [this] { watchers_.tell({.everything = true}); },
                                         .down = [this](const Failure& failure) { note_failure(failure); },
                                         .notified = [this](const std::string& notification) { hear(notification); }});
  loop_.add(*listener_);
  leader_ = std::make_unique<postgres::Leader>(
      loop_, connector(Purpose::kRead), instance_,
      postgres::Leader::Hooks{.numbered = [this](std::uint64_t last) { numbered(last); },
                              .is_closing = [this] { return is_closing_.load(); }});
}

// After a failover the new server may lack commits that the old one has acknowledged.
void PostgresStore::Impl::note_timeline(const std::string& timeline) {
  if (timeline.empty()) return;
  MutexLock lock(mutex_);
  if (!timeline_.empty() && timeline_ != timeline) {
    COHORT_LOG(kWarning, "store", "another PostgreSQL server has taken over; this node joins again",
               {"timeline", timeline});
  }
  timeline_ = timeline;
}

void PostgresStore::Impl::note_failure(const Failure& failure) {
  if (!failure.is_lost() && !failure.state.starts_with("57") && !failure.state.starts_with("53") &&
      !failure.state.starts_with("25")) {
    return;
  }
  Error error = failure.to_error();
  error.code = ErrorCode::kUnavailable;
  MutexLock lock(mutex_);
  if (!trouble_ && !is_closing_) {
    COHORT_LOG(kWarning, "store", "the PostgreSQL server cannot be used at the moment", {"error", error.message});
  }
  trouble_ = std::move(error);
}

void PostgresStore::Impl::note_success() {
  MutexLock lock(mutex_);
  if (trouble_) COHORT_LOG(kInfo, "store", "the PostgreSQL server works again");
  trouble_.reset();
}

// --- calls

bool PostgresStore::Impl::enter() {
  if (is_closing_) return false;
  if (open_calls_.fetch_add(1, std::memory_order_relaxed) < options_.max_queued) return true;
  leave();
  return false;
}

Error PostgresStore::Impl::refusal() const {
  if (is_closing_) return {ErrorCode::kEnded, "the store has been closed"};
  return {ErrorCode::kRejected,
          "the store has " + std::to_string(options_.max_queued) + " calls waiting already; submit more slowly"};
}

postgres::Writer& PostgresStore::Impl::writer_for(const std::string& name) {
  return *writers_[std::hash<std::string>()(name) % writers_.size()];
}

void PostgresStore::Impl::ask(Reader& reader, const AskedRef& asked) {
  postgres::Session* const session = reader.link->session();
  if (session == nullptr) {
    if (std::chrono::steady_clock::now() - asked->since >= options_.patience) {
      return asked->told({.failure = Failure{"", "there is no connection to the server"}});
    }
    reader.waiting.push_back(asked);
    return;
  }
  session->exchange({asked->query}, [this, &reader, asked](Answers answers) {
    const bool repeats = answers.failure && answers.failure->may_pass() && !is_closing_ &&
                         std::chrono::steady_clock::now() - asked->since < options_.patience;
    if (!repeats) {
      if (!answers.failure) note_success();
      return asked->told(std::move(answers));
    }
    reader.waiting.push_back(asked);
    if (!answers.failure->is_lost()) {
      loop_.call_in(std::chrono::milliseconds(20), [this, &reader] { go_on(reader); });
    }
  });
}

void PostgresStore::Impl::go_on(Reader& reader) {
  for (const AskedRef& each : std::exchange(reader.waiting, {})) ask(reader, each);
}

void PostgresStore::Impl::give_up_old(Reader& reader, const Failure& failure) {
  const Time oldest = std::chrono::steady_clock::now() - options_.patience;
  std::vector<AskedRef> old;
  std::erase_if(reader.waiting, [&](const AskedRef& each) {
    if (each->since < oldest) old.push_back(each);
    return each->since < oldest;
  });
  for (const AskedRef& each : old) each->told({.failure = Failure{"", failure.message}});
}

// --- leases

void PostgresStore::Impl::note_joined(const std::string& boot) {
  leases_.note_renewal(boot, lease_clock_.now());
  MutexLock lock(mutex_);
  timelines_[boot] = timeline_;
}

// A node whose server was replaced begins anew: what it has claimed may not be what the new server knows of.
bool PostgresStore::Impl::has_changed_server(const std::string& boot) {
  MutexLock lock(mutex_);
  const auto joined = timelines_.find(boot);
  return joined != timelines_.end() && joined->second != timeline_;
}

void PostgresStore::Impl::renew(std::string boot, Duration lease, Completion<void> done) {
  if (has_changed_server(boot)) {
    return done(Error{ErrorCode::kStale, "another PostgreSQL server has taken over since boot '" + boot + "' joined"});
  }
  const Time sent = lease_clock_.now();
  read<bool>(
      Line::kLeases, {&kRenewBoot, std::move(Parameters().add(boot).add(std::int64_t{lease.count()}))},
      [this, boot, sent, done = std::move(done)](Result<bool> renewed) mutable {
        if (!renewed) return done(renewed.error());
        if (*renewed) {
          leases_.note_renewal(boot, sent);
          return done({});
        }
        // Durable before the answer: a boot that is heard of has not crashed.
        read<bool>(
            Line::kLeases, {&kComeBack, std::move(Parameters().add(boot))},
            [boot, done = std::move(done)](const Result<bool>&) mutable {
              done(Error{ErrorCode::kStale, "the lease of boot '" + boot + "' has run out"});
            },
            [](const postgres::ResultRef&) -> Result<bool> { return true; });
      },
      [](const postgres::ResultRef& result) -> Result<bool> { return postgres::rows_of(result) != 0; });
}

void PostgresStore::Impl::take_over(std::string boot, Completion<std::vector<std::string>> done) {
  using Groups = std::vector<std::string>;
  read<std::vector<postgres::DeadBoot>>(
      Line::kRows, {&kAlive, std::move(Parameters().add(version_))},
      [this, boot, done = std::move(done)](Result<std::vector<postgres::DeadBoot>> dead) mutable {
        if (!dead) return done(dead.error());
        if (dead->empty()) return done(Groups());
        if (dead->front().boot.empty()) dead->erase(dead->begin());  // Only tasks without an owner.
        change<Groups>(boot, std::move(done), [dead = *std::move(dead)](Completion<Groups> counted) mutable {
          return postgres::take_over_change(std::move(dead), std::move(counted));
        });
      },
      [this, boot](const postgres::ResultRef& result) -> Result<std::vector<postgres::DeadBoot>> {
        std::vector<LeaseWatch::Lease> alive;
        bool has_ownerless = false;
        for (int i = 0; i < postgres::rows_of(result); ++i) {
          Row row(result.get(), i);
          LeaseWatch::Lease lease{row.text(), row.number(), row.duration()};
          if (row.flag()) has_ownerless = true;
          if (!lease.boot.empty()) alive.push_back(std::move(lease));
        }
        std::vector<postgres::DeadBoot> dead;
        if (has_ownerless) dead.push_back({});
        for (const std::string& each : leases_.dead(boot, alive, lease_clock_.now())) {
          const auto at = std::ranges::find(alive, each, &LeaseWatch::Lease::boot);
          if (dead.empty()) dead.push_back({});
          dead.push_back({each, at->renewals});
        }
        return dead;
      });
}

// --- news

// "INSTANCE" and a line for each piece of news: "c" for controls, "e" for events without numbers, "n NUMBER" for events
// with numbers, "r COUNT NANOSECONDS BYTES GROUP" for ready tasks, "*" for more than fits. A group may hold any text,
// so its length tells where it ends.
std::string PostgresStore::Impl::notification_of(const StoreNews& news, bool has_events) const {
  constexpr std::size_t kMost = 7'900;
  std::string text = instance_;
  if (news.control) text += "\nc";
  if (has_events && !leader_->leads()) text += "\ne";
  for (const ReadyGroup& each : news.ready) {
    text += "\nr " + std::to_string(each.count) + " " + std::to_string(each.next_in.count()) + " " +
            std::to_string(each.group.size()) + " " + each.group;
  }
  if (text.size() > kMost) text = instance_ + "\n*" + (has_events ? "\ne" : "");
  return text.size() == instance_.size() ? "" : text;
}

void PostgresStore::Impl::committed(const StoreNews& news, bool has_events) {
  watchers_.tell(news);
  if (has_events) leader_->poke();
}

void PostgresStore::Impl::numbered(std::uint64_t last) {
  watchers_.tell({.last_event = last});
  if (postgres::Session* const session = leader_->session()) {
    session->exchange({{&postgres::kNotifyNumbers,
                        std::move(Parameters().add(channel_).add(instance_ + "\nn " + std::to_string(last)))}},
                      [](Answers) {});
  }
}

void PostgresStore::Impl::hear(const std::string& notification) {
  std::string_view rest = notification;
  const auto take = [&](std::size_t bytes) {
    const std::string_view text = rest.substr(0, bytes);
    rest.remove_prefix(std::min(bytes, rest.size()));
    return text;
  };
  const auto number = [&] {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
    take(static_cast<std::size_t>(end - rest.data()) + 1);
    return error == std::errc() ? value : 0;
  };
  if (take(instance_.size()) == instance_) return;  // Its watchers know.
  StoreNews news;
  while (rest.size() >= 2) {
    const char kind = take(2).back();
    if (kind == '*') news.everything = true;
    if (kind == 'c') news.control = true;
    if (kind == 'e') leader_->poke();
    if (kind != 'n' && kind != 'r') continue;
    take(1);
    if (kind == 'n') {
      news.last_event = static_cast<std::uint64_t>(number());
      break;  // It comes alone.
    }
    const auto count = static_cast<std::uint64_t>(number());
    const Duration next_in(number());
    news.ready.push_back({std::string(take(static_cast<std::size_t>(number()))), count, next_in});
  }
  watchers_.tell(news);
}

// Tasks that other programs have put in with cohort.submit(). Nobody is told of them: NOTIFY would keep the commits of
// those programs apart.
void PostgresStore::Impl::look_for_submitted() {
  if (is_closing_) return;
  loop_.call_in(std::chrono::seconds(1), [this] { look_for_submitted(); });
  for (const auto& each : writers_) each->look();
  for (Reader& each : readers_) {
    if (each.link->session() == nullptr) give_up_old(each, {"", "there is no connection to the server"});
  }
  const std::int64_t age = 60 * kMicros - offset_us();
  if (leader_->leads() && leader_->session() != nullptr) {
    leader_->session()->exchange({{&kRemoveSubmitted, std::move(Parameters().add(age + 60 * kMicros))}},
                                 [](Answers) {});
  }
  auto asked = std::make_shared<Asked>();
  asked->query = {&kSubmitted, std::move(Parameters().add(age))};
  asked->told = [this](Answers answers) {
    if (answers.failure) return;
    std::set<std::uint64_t> seen;
    NewsOfChange news;
    for (int i = 0; i < postgres::rows_of(answers.results.front()); ++i) {
      Row row(answers.results.front().get(), i);
      const std::uint64_t sequence = row.number();
      seen.insert(sequence);
      if (!submitted_.contains(sequence)) news.add_ready(row.text(), Duration::zero());
    }
    submitted_ = std::move(seen);
    watchers_.tell(news.take());
  };
  if (rows().link->session() != nullptr) ask(rows(), asked);
}

}  // namespace cohort
