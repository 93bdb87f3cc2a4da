// boundary.md, "Files": the image `host` works as a machine does, and holds nothing of whoever lives on it.
#include "cagebreak/owner_place.hpp"
#include "support/catch.hpp"

namespace pinfold::test {
namespace {

// Somebody's /etc over the machine's own, for this test alone.
class changed_etc {
public:
    changed_etc() : place_(0) {
        const std::string options = fmt::format("lowerdir=/etc,upperdir={},workdir={}",
                                                place_.folder("upper").native(),
                                                place_.folder("work").native());
        check(::mount("overlay", "/etc", "overlay", 0, options.c_str()), "cover /etc for a test");
    }
    changed_etc(const changed_etc&) = delete;
    changed_etc& operator=(const changed_etc&) = delete;
    ~changed_etc() { (void)::umount2("/etc", MNT_DETACH); }
    void write(const std::string& name, const std::string& text, mode_t mode = 0644) const {
        const std::filesystem::path path = "/etc/" + name;
        std::filesystem::create_directories(path.parent_path());
        std::ofstream(path) << text;
        check(::chmod(path.c_str(), mode), "set the mode of {}", path.native());
    }

private:
    owner_place place_;
};

cage_kind with_image(const cage_kind& kind, const std::filesystem::path& folder) {
    std::vector<step> layers;
    for (const image_layer& layer : images(folder).get("host").layers)
        layers.emplace_back(mount_layer{layer.lower, layer.target});
    return kind.changed([layers](std::vector<step>& steps) {
        std::size_t next = 0;
        for (step& each : steps) {
            if (std::holds_alternative<mount_layer>(each)) each = layers.at(next++);
        }
    });
}

TEST_CASE("no key, hash, name or id of the machine is in the image") {
    cage_machine& machine = cage_machine::here();
    const changed_etc etc;
    const owner_place root(0);
    const owner_place homes(1000);
    const owner_place built(0);
    etc.write("shadow", "root:$6$canary$hash:1:0:99999:7:::\nalice:$6$canary$hash:1:0:99999:7:::\n", 0640);
    etc.write("machine-id", "canarycanarycanarycanarycanaryca\n");
    etc.write("ssh/ssh_host_ed25519_key", "canary", 0600);
    etc.write("ssl/private/server.key", "canary", 0600);
    etc.write("apt/auth.conf", "machine x login y password canary", 0600);
    etc.write("wireguard/wg0.conf", "PrivateKey = canary", 0600);
    etc.write("NetworkManager/system-connections/home.nmconnection", "psk=canary", 0600);
    etc.write("environment", "TOKEN=canary\n");
    etc.write("sudoers.d/alice", "alice ALL=(ALL) NOPASSWD: ALL # canary", 0440);
    etc.write("passwd", text_of("/etc/passwd") + "alice:x:1000:1000:canary:/home/alice:/bin/bash\n");
    etc.write("gitconfig", "[user]\n\tname = canary\n");
    root.file(".ssh/id_ed25519", "canary"); // readable, so that nothing but its absence keeps it from a cage
    homes.file("alice/notes", "canary");
    const planted_mount over_root(root.path(), "/root");
    const planted_mount over_homes(homes.path(), "/home");

    const cage_kind kind = with_image(sealed(), built.path());
    const std::string look = "grep -rlaI canary /etc /root /home /run /var /srv /opt /tmp 2>/dev/null; cut "
                             "-d: -f2 /etc/shadow | grep -c '[$]'; "
                             "find / -xdev \\( -type s -o -type p \\) 2>/dev/null; getent passwd root | cut "
                             "-d: -f1; getent passwd alice; "
                             "ls /etc/ssl/certs | grep -c . >/dev/null && echo certificates";
    const probed seen = machine.run(kind, shell(look));
    CAPTURE(seen.errors);
    CHECK(seen.output == "0\nroot\ncertificates\n");
    CHECK(machine.run(kind.with_bind({"/root", "/root", false}), shell(look))
              .says("/root/.ssh/id_ed25519")); // the mutation
}

TEST_CASE("git, curl, Python, Node and the compiler work in a cage") {
    cage_machine& machine = cage_machine::here();
    const owner_place project(1000, 0700);
    const std::string script =
        "set -e\ngit init -q . && git config user.name n && git config user.email e@example.com && echo x >f "
        "&& git add f && git commit -qm one && git log --oneline | wc -l\n"
        "curl --version | head -c 4\necho\npython3 -c 'import ssl, sqlite3, subprocess; "
        "print(subprocess.check_output([\"echo\", \"python\"], text=True).strip())'\n"
        "node -e 'console.log(\"node\", require(\"os\").cpus().length > 0)'\n"
        "printf '#include <stdio.h>\\nint main(void){puts(\"compiled\");}' >main.c && gcc -o main main.c && "
        "./main\n"
        "id -un; ls -la /root >/dev/null; mktemp -d >/dev/null; locale >/dev/null";
    for (const cage_kind& mode : {sealed(), caged()}) {
        const probed ran = machine.run(mode.with_project(project.path(), project.owner()),
                                       shell("rm -rf .git f main main.c\n" + script));
        CAPTURE(ran.errors);
        CHECK(ran.status == 0);
        CHECK(ran.output == "1\ncurl\npython\nnode true\ncompiled\nroot\n");
    }
}

TEST_CASE(
    "a package is built and installed in a cage, and nothing in the project has a foreign owner (B41)") {
    cage_machine& machine = cage_machine::here();
    const owner_place project(1000, 0755);
    const std::string script =
        "set -e\nmkdir -p package/DEBIAN package/usr/bin package/etc/pinfold-test\n"
        "printf 'Package: pinfold-test\\nVersion: 1\\nArchitecture: all\\nMaintainer: nobody "
        "<nobody@example.com>\\nDescription: a test\\n' >package/DEBIAN/control\n"
        "printf '#!/bin/sh\\nset -e\\nadduser --system --group --quiet pinfold-test\\nchown pinfold-test: "
        "/etc/pinfold-test\\n' >package/DEBIAN/postinst\n"
        "printf '#!/bin/sh\\necho installed\\n' >package/usr/bin/pinfold-test\nchmod 755 "
        "package/DEBIAN/postinst package/usr/bin/pinfold-test\n"
        "dpkg-deb --root-owner-group --build package test.deb >/dev/null\napt-get install -y -qq ./test.deb "
        ">apt.log 2>&1 || { cat apt.log; exit 1; }\n"
        "pinfold-test\nstat -c %U /etc/pinfold-test\ndpkg -s pinfold-test | grep Status\n"
        "mkdir tree && touch tree/a && tar --owner=33 --group=33 -cf t.tar tree && rm -r tree && tar "
        "--no-same-owner -xf t.tar && ls tree";
    const probed ran = machine.run(sealed().with_project(project.path(), project.owner()), shell(script));
    CAPTURE(ran.output, ran.errors);
    CHECK(ran.status == 0);
    CHECK(ran.output == "installed\npinfold-test\nStatus: install ok installed\na\n");
    for (const auto& entry : std::filesystem::recursive_directory_iterator(project.path())) {
        CAPTURE(entry.path());
        CHECK(status_of(entry.path()).st_uid == 1000);
        CHECK(status_of(entry.path()).st_gid == 1000);
    }
    CHECK_FALSE(std::filesystem::exists("/usr/bin/pinfold-test"));
    CHECK_FALSE(std::filesystem::exists("/etc/pinfold-test"));
    // What cannot be done in a project fails at once: it belongs to its owner alone.
    CHECK(machine
              .run(sealed().with_project(project.path(), project.owner()),
                   {"tar", "--same-owner", "-xf", "t.tar"})
              .status != 0);
}

} // namespace
} // namespace pinfold::test
