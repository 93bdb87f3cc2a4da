// What the image `host` takes of the machine, as data: an allow-list, so that what appears there later is out by default.
#pragma once

#include <cstdint>
#include <string_view>

namespace pinfold::host_list {

inline constexpr std::uint64_t format_version = 1; // to be raised when the list below changes

// Of /etc, copied. A name may be a pattern. Missing on purpose: everything else, and by name gitconfig, npmrc, pip.conf
// and environment (they hold tokens), apt.conf* and auth.conf* (proxies and passwords), machine-id, ssh, sudoers.
inline constexpr std::string_view from_etc[] = {
    // programs and libraries find themselves
    "alternatives", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "glvnd", "perl", "python*", "java*",
    "dotnet", "texmf", "ImageMagick-*", "fonts", "gdb", "groff", "xml", "sgml", "xdg", "vim", "nanorc",
    "fpc*.cfg", "gnucobol", "maven/logging", "maven/m2.conf", "magic", "magic.mime", "mailcap",
    "manpath.config", "papersize", "rmt",
    // certificates, without keys
    "ca-certificates", "ca-certificates.conf", "ssl/certs", "ssl/openssl.cnf",
    // names and numbers
    "ethertypes", "gai.conf", "host.conf", "iproute2", "mime.types", "netconfig", "networks", "protocols",
    "rpc", "services",
    // the shell, the language, the time
    "bash.bashrc", "bash_completion", "bash_completion.d", "inputrc", "profile", "profile.d", "shells",
    "skel", "zsh", "default/locale", "default/useradd", "locale.alias", "locale.gen", "localtime", "timezone",
    // what system this is
    "debian_version", "issue", "issue.net", "lsb-release", "os-release",
    // packages and accounts
    "adduser.conf", "apt/keyrings", "apt/preferences", "apt/preferences.d", "apt/trusted.gpg",
    "apt/trusted.gpg.d", "bindresvport.blacklist", "debconf.conf", "deluser.conf", "dpkg", "libaudit.conf",
    "login.defs", "pam.conf", "pam.d", "security", "ucf.conf", "xattr.conf"};

// Of /var/lib, copied: what dpkg and the packages' own scripts must find.
inline constexpr std::string_view from_var_lib[] = {
    // packages
    "dpkg", "emacsen-common", "dictionaries-common", "pam", "python", "sgml-base", "shells.state",
    "ucf",  "xml-core"};

// Not even where it stands below something in the list. In /etc only: dpkg's lists have names of all kinds.
inline constexpr std::string_view never[] = {
    // passwords and keys
    "*shadow*",   "opasswd*",   "*passwd-",     "*.key",
    "*_key",      "*.keytab",   "*.p12",        "*.jks.bak",
    "*private*",  "*secret*",   "*credential*", "*token*",
    "*netrc*",    "auth.conf*", "apt.conf*",    "jmxremote.password*",
    "machine-id", "krb5*"};

struct folder {
    std::string_view path;
    unsigned mode;
};

// Mount points, and what programs expect to be there.
inline constexpr folder folders[] = {
    // of every system
    {"/boot", 0755},
    {"/dev", 0755},
    {"/home", 0755},
    {"/media", 0755},
    {"/mnt", 0755},
    {"/opt", 0755},
    {"/proc", 0555},
    {"/root", 0700},
    {"/run", 0755},
    {"/srv", 0755},
    {"/sys", 0555},
    {"/tmp", 01777},
    {"/usr", 0755},
    {"/etc/apt/apt.conf.d", 0755},
    {"/etc/default", 0755},
    {"/etc/opt", 0755},
    {"/etc/systemd/system", 0755},
    {"/var", 0755},
    {"/var/backups", 0755},
    {"/var/cache/apt/archives/partial", 0700},
    {"/var/cache/debconf", 0755},
    {"/var/cache/ldconfig", 0700},
    {"/var/lib/apt/lists/partial", 0700},
    {"/var/lib/apt/mirrors/partial", 0755},
    {"/var/lib/apt/periodic", 0755},
    {"/var/lib/misc", 0755},
    {"/var/lib/systemd", 0755},
    {"/var/local", 0755},
    {"/var/log/apt", 0755},
    {"/var/mail", 0755},
    {"/var/opt", 0755},
    {"/var/spool", 0755},
    {"/var/tmp", 01777}};

// The state of the machine that an image depends on. Not /etc itself, which changes with every resolv.conf.
inline constexpr const char* watched[] = {
    // packages
    "var/lib/dpkg/status", "etc/alternatives", "etc/ld.so.cache", "usr/lib/os-release",
    // accounts and settings
    "etc/passwd", "etc/group", "etc/apt/sources.list", "etc/apt/sources.list.d", "etc/ssl/certs",
    "etc/localtime", "etc/profile.d"};

inline constexpr std::string_view nsswitch = "passwd:    files\n"
                                             "group:     files\n"
                                             "shadow:    files\n"
                                             "gshadow:   files\n"
                                             "hosts:     files dns\n"
                                             "networks:  files\n"
                                             "protocols: files\n"
                                             "services:  files\n"
                                             "ethers:    files\n"
                                             "rpc:       files\n";

} // namespace pinfold::host_list
