// The stores that the suites run on.

#include "contract/postgres_world.h"
#include "contract/task_store_contract.h"

namespace cohort {

std::unique_ptr<StoreWorld> make_world(StoreKind kind) {
  switch (kind) {
    case StoreKind::kSqlite: return std::make_unique<SqliteStoreWorld>();
    case StoreKind::kPostgres: return std::make_unique<PostgresStoreWorld>();
    case StoreKind::kPostgresSql: return std::make_unique<PostgresSqlWorld>();
    case StoreKind::kMemory: break;
  }
  return std::make_unique<MemoryStoreWorld>();
}

std::string name_of(StoreKind kind) {
  switch (kind) {
    case StoreKind::kSqlite: return "Sqlite";
    case StoreKind::kPostgres: return "Postgres";
    case StoreKind::kPostgresSql: return "PostgresSql";
    case StoreKind::kMemory: break;
  }
  return "Memory";
}

INSTANTIATE_TEST_SUITE_P(Stores, TaskStoreContract,
                         testing::Values(StoreKind::kMemory, StoreKind::kSqlite, StoreKind::kPostgres,
                                         StoreKind::kPostgresSql),
                         [](const auto& of) { return name_of(of.param); });

}  // namespace cohort
