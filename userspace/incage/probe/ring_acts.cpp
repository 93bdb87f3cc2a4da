// io_uring, whose operations no system call filter sees.
#include "incage/probe/endpoint.hpp"

#include <atomic>
#include <cstring>
#include <linux/io_uring.h>
#include <sys/mman.h>
#include <sys/syscall.h>

namespace pinfold::probe {
namespace {

unique_fd set_up(io_uring_params& shape) {
    return unique_fd(static_cast<int>(::syscall(SYS_io_uring_setup, 4, &shape)));
}

outcome ring(arguments) {
    io_uring_params shape{};
    return set_up(shape) ? done() : failed("io_uring_setup");
}

// One operation, submitted and waited for; its result, or -errno.
class one_operation {
public:
    explicit one_operation(int ring, const io_uring_params& shape) : ring_(ring), shape_(shape) {
        entries_ = map(sizeof(io_uring_sqe) * shape.sq_entries, IORING_OFF_SQES);
        submissions_ = map(shape.sq_off.array + shape.sq_entries * sizeof(std::uint32_t), IORING_OFF_SQ_RING);
        completions_ = map(shape.cq_off.cqes + shape.cq_entries * sizeof(io_uring_cqe), IORING_OFF_CQ_RING);
    }

    int run(const io_uring_sqe& operation) {
        if (entries_ == nullptr || submissions_ == nullptr || completions_ == nullptr) return -ENOMEM;
        std::memcpy(entries_, &operation, sizeof operation);
        *word(submissions_, shape_.sq_off.array) = 0;
        std::atomic_ref(*word(submissions_, shape_.sq_off.tail)).store(1, std::memory_order_release);
        if (::syscall(SYS_io_uring_enter, ring_, 1, 1, IORING_ENTER_GETEVENTS, nullptr, 0) < 0) return -errno;
        io_uring_cqe completion{};
        std::memcpy(&completion, static_cast<char*>(completions_) + shape_.cq_off.cqes, sizeof completion);
        return completion.res;
    }

private:
    [[nodiscard]] void* map(std::size_t size, long long at) const {
        void* const mapped = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring_,
                                    at);
        return mapped == MAP_FAILED ? nullptr : mapped;
    }
    static std::uint32_t* word(void* base, std::uint32_t offset) {
        return reinterpret_cast<std::uint32_t*>(static_cast<char*>(base) + offset);
    }

    int ring_;
    io_uring_params shape_;
    void* entries_ = nullptr;
    void* submissions_ = nullptr;
    void* completions_ = nullptr;
};

outcome by_ring(const io_uring_sqe& operation) {
    io_uring_params shape{};
    const unique_fd ring_fd = set_up(shape);
    if (!ring_fd) return failed("io_uring_setup");
    const int result = one_operation(ring_fd.get(), shape).run(operation);
    return result < 0 ? refused(-result, "operation") : done();
}

outcome ring_connect(arguments given) {
    const endpoint to = to_endpoint(given[0], given[1]);
    const unique_fd socket = make_socket(to.family(), SOCK_STREAM);
    if (!socket) return failed("socket");
    io_uring_sqe operation{};
    operation.opcode = IORING_OP_CONNECT;
    operation.fd = socket.get();
    operation.addr = reinterpret_cast<std::uintptr_t>(to.get());
    operation.off = to.size;
    return by_ring(operation);
}

outcome ring_open(arguments given) {
    const std::string path(given[0]);
    io_uring_sqe operation{};
    operation.opcode = IORING_OP_OPENAT;
    operation.fd = -100; // AT_FDCWD
    operation.addr = reinterpret_cast<std::uintptr_t>(path.c_str());
    return by_ring(operation);
}

constexpr act table[] = {
    {"io-uring", "io_uring_setup", 0, 0, ring},
    {"io-uring-connect", "ADDRESS PORT: TCP by a ring", 2, 2, ring_connect},
    {"io-uring-open", "PATH: to read, by a ring", 1, 1, ring_open},
};

} // namespace

std::span<const act> ring_acts() {
    return table;
}

} // namespace pinfold::probe
