// The same for cohort::http.

#include <cohort/provider/http/http_client.h>

#include <cstdio>

int main() {
  const auto client = cohort::HttpClient::make();
  const cohort::HttpAnswer answer = (*client)->fetch("gopher://nowhere");
  const auto* failure = std::get_if<cohort::Failure>(&answer);
  std::printf("%s\n", failure != nullptr ? failure->error.message.c_str() : "an answer");
  return failure != nullptr ? 0 : 1;
}
