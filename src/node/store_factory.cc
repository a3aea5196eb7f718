#include "node/store_factory.h"

#include <utility>

#include "cohort/backend/postgres/postgres_store.h"
#include "cohort/backend/sqlite/sqlite_store.h"

namespace cohort {

std::filesystem::path data_folder(const StoreConfig& config) { return config.sqlite.folder; }

Result<OpenedStore> open_store(const StoreConfig& config, const std::string& who) {
  if (config.postgres) {
    Result<std::unique_ptr<PostgresStore>> store = PostgresStore::open(*config.postgres);
    if (!store) return store.error();
    return OpenedStore{.store = *std::move(store), .kind = "postgres", .place = place_of(*config.postgres)};
  }
  SqliteOptions options = config.sqlite;
  options.who = who;
  Result<std::unique_ptr<SqliteStore>> store = SqliteStore::open(std::move(options));
  if (!store) return store.error();
  const int descriptor = (*store)->folder_descriptor();
  return OpenedStore{.store = *std::move(store),
                     .kind = "sqlite",
                     .place = config.sqlite.folder.string(),
                     .lock_descriptor = descriptor};
}

Result<std::unique_ptr<Broker>> make_broker(const NodeConfig&) { return std::unique_ptr<Broker>(); }

}  // namespace cohort
