// Root filesystems that cages start from. `host` is the machine's own tree by an allow-list.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace pinfold {

// One overlay of a cage's root: read-only below, the cage's own upper above.
struct image_layer {
    std::filesystem::path lower;  // on the machine, root's
    std::filesystem::path target; // inside the cage: "/" first
};

struct image {
    std::string name;
    std::vector<image_layer> layers;
    std::string path; // PATH inside, "/usr/local/sbin:…"
};

class images {
public:
    // `folder` is where prepared trees are kept (state directory, images/). `machine_root` is "/" but in unit tests.
    explicit images(std::filesystem::path folder, std::filesystem::path machine_root = "/");

    // The image of this name, prepared where it is not yet there or where the machine's packages have changed since.
    // `host` is made from the machine itself; any other name is a directory below the folder. Throws with what is
    // missing and what to do.
    [[nodiscard]] image get(std::string_view name);

private:
    std::filesystem::path folder_;
    std::filesystem::path machine_root_;
};

} // namespace pinfold
