// The capabilities that root inside a cage keeps, over its own user namespace only.
#pragma once

#include <array>
#include <linux/capability.h>

namespace pinfold {

// What apt, dpkg, su, chown and a server on port 80 need. Everything else leaves the bounding set.
inline constexpr std::array kept_capabilities{
    CAP_CHOWN,   CAP_DAC_OVERRIDE, CAP_FOWNER,  CAP_FSETID, CAP_KILL,       CAP_NET_BIND_SERVICE,
    CAP_SETFCAP, CAP_SETGID,       CAP_SETPCAP, CAP_SETUID, CAP_SYS_CHROOT,
};

} // namespace pinfold
