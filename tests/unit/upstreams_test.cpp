// What a cage may have of a model's provider with the owner's credential, and what not.
#include "agent/gateway/upstreams.hpp"
#include "base/file.hpp"
#include "support/catch.hpp"

#include <cstdlib>
#include <sys/stat.h>

namespace pinfold {

namespace {

struct key_file {
    key_file() {
        std::string name = std::filesystem::temp_directory_path() / "pinfold-key-XXXXXX";
        if (::mkdtemp(name.data()) == nullptr) fail_errno(errno, "make {}", name);
        folder = name;
        replace_file_at(open_directory(folder).get(), "key", "a-key\n");
    }
    key_file(const key_file&) = delete;
    key_file& operator=(const key_file&) = delete;
    ~key_file() {
        std::error_code ignored;
        std::filesystem::remove_all(folder, ignored);
    }
    std::filesystem::path folder;
};

int status_of(const upstream_settings& with, const model_asker& who, std::string_view target) {
    try {
        const upstream_request found = find_upstream(with, who, target);
        return found.credential.size() == 1 ? 200 : 0;
    } catch (const model_refusal& refusal) {
        return refusal.status();
    }
}

} // namespace

TEST_CASE("the credential is put on messages, token counts and models, and on nothing else of the provider") {
    const key_file key;
    const upstream_settings with{.anthropic = "https://provider.test", .key = key.folder / "key"};
    const model_asker who{.session = "heron", .harness = "claude"};
    for (const char* lawful : {"/", "/v1/messages", "/v1/messages?beta=true",
                               "/v1/messages/count_tokens?beta=true", "/v1/models", "/v1/models/some-model"})
        CHECK(status_of(with, who, lawful) == 200);
    for (const char* refused :
         {"/v1/files", "/v1/files/file_1/content", "/v1/messages/batches", "/v1/organizations/me",
          "/api/oauth/profile", "/v1/complete", "/v1/messagesx", "/v1/messages/"})
        CHECK(status_of(with, who, refused) == 403);
    for (const char* odd : {"/v1/models/../files", "/v1/models/%2e%2e/files", "/v1/models/%2Ffiles",
                            "//v1/messages", "v1/messages"})
        CHECK(status_of(with, who, odd) == 400);
}

TEST_CASE("no credential goes where there is no TLS, or out of a file that others can read") {
    const key_file key;
    const model_asker who{.session = "heron", .harness = "claude"};
    CHECK(status_of({.anthropic = "http://provider.test", .key = key.folder / "key"}, who, "/v1/messages") ==
          502);
    REQUIRE(::chmod((key.folder / "key").c_str(), 0640) == 0);
    CHECK(status_of({.anthropic = "https://provider.test", .key = key.folder / "key"}, who, "/v1/messages") ==
          401);
}

} // namespace pinfold
