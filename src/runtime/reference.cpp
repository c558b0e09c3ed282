// C text through the system compiler.
//
// The cache is a directory of shared libraries. An entry's name is the SHA-256 of source, compiler and flags. It is
// made in a directory of its own and renamed, so processes that share a cache never see half of one. After the
// library's bytes stands their SHA-256: the dynamic loader would not notice a damaged file before the process faults on
// it.
#include "uopc/reference.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <utility>

#include "codegen/render_c.hpp"
#include "passes/verify.hpp"
#include "runtime/check_buffers.hpp"
#include "runtime/files.hpp"
#include "runtime/sha256.hpp"
#include "runtime/system_compiler.hpp"
#include "uopc/passes.hpp"

namespace uopc {
namespace {

constexpr std::string_view kSealMagic = "uopc.so.";

std::string seal_of(std::string_view library) {
  const Sha256 digest = sha256(library);
  return std::string(kSealMagic).append(reinterpret_cast<const char*>(digest.data()), digest.size());
}

bool is_whole(const std::string& path) {
  if (::access(path.c_str(), R_OK) != 0) return false;
  const std::string file = read_file(path);
  const size_t seal_size = kSealMagic.size() + sizeof(Sha256);
  if (file.size() <= seal_size) return false;
  const std::string_view library = std::string_view(file).substr(0, file.size() - seal_size);
  return std::string_view(file).substr(library.size()) == seal_of(library);
}

// Every part with its length in front, so that no two lists of parts give the same bytes.
std::string cache_key(const std::string& source, const std::vector<std::string>& command) {
  std::string all = "uopc C library 1\n";
  const auto add = [&](std::string_view part) { all += fmt::format("{}:{}\n", part.size(), part); };
  for (const std::string& word : command) add(word);
  add(source);
  return hex(sha256(all));
}

void build(const std::string& source, std::vector<std::string> command, const std::string& cache,
           const std::string& target) {
  const TempDir work(cache);
  const std::string text = work.path() + "/kernel.c", library = work.path() + "/kernel.so";
  const std::string_view parts[] = {source};
  write_file(text, parts);
  command.insert(command.end(), {"-o", library, text, "-lm"});
  run_compiler(command, work.path());
  if (::access(library.c_str(), R_OK) != 0)
    throw Error(ErrorCode::Compile, fmt::format("the C compiler '{}' made no library", command[0]));
  const std::string bytes = read_file(library), seal = seal_of(bytes);
  const std::string sealed = work.path() + "/sealed.so";
  const std::string_view sealed_parts[] = {bytes, seal};
  write_file(sealed, sealed_parts);
  if (::rename(sealed.c_str(), target.c_str()) != 0)
    throw Error(ErrorCode::Run, fmt::format("cannot write '{}': {}", target, std::generic_category().message(errno)));
}

// OpenMP runtimes keep threads that outlive a parallel region; unmapping their code under them would end the process.
void pin_openmp_runtimes() {
  for (const char* library : {"libgomp.so.1", "libomp.so.5", "libomp.so", "libiomp5.so"})
    if (void* handle = ::dlopen(library, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE)) ::dlclose(handle);
}

constexpr size_t kMaxBuffers = 128;
using Caller = void (*)(void* function, void* const* buffers);

// Calls a C function of as many pointers as there are indices.
template <size_t... I>
constexpr Caller caller(std::index_sequence<I...>) {
  return [](void* function, [[maybe_unused]] void* const* buffers) {
    using Function = void (*)(decltype(static_cast<void>(I), static_cast<void*>(nullptr))...);
    reinterpret_cast<Function>(function)(buffers[I]...);
  };
}

template <size_t... N>
constexpr std::array<Caller, sizeof...(N)> callers(std::index_sequence<N...>) {
  return {caller(std::make_index_sequence<N>())...};
}

}  // namespace

struct Program::Impl {
  std::optional<TempDir> directory;  // first, so that it goes after the library
  std::string name, path;
  void* handle = nullptr;
  void* function = nullptr;

  Impl() = default;
  ~Impl() {
    if (handle) ::dlclose(handle);
  }
};

const std::string& Program::name() const {
  return impl_->name;
}
const std::string& Program::library_path() const {
  return impl_->path;
}

void Program::operator()(std::span<void* const> buffers) const {
  static constexpr auto kCallers = callers(std::make_index_sequence<kMaxBuffers + 1>());
  if (buffers.size() > kMaxBuffers)
    throw Error(ErrorCode::NotImplemented,
                fmt::format("a C function of {} buffers; at most {} can be called", buffers.size(), kMaxBuffers));
  kCallers[buffers.size()](impl_->function, buffers.data());
}

Program compile_c(const std::string& source, const std::string& name, const Options& options) {
  std::vector<std::string> command = split_words(options.cc);
  if (command.empty()) throw Error(ErrorCode::Compile, "no C compiler: Options::cc (CC) is empty");
  for (std::string& flag : split_words(options.cflags)) command.push_back(std::move(flag));
  command.insert(command.end(), {"-shared", "-fPIC"});

  auto impl = std::make_shared<Program::Impl>();
  impl->name = name;
  std::string cache = options.c_cache_dir;
  if (cache.empty()) {
    cache = impl->directory.emplace("/tmp").path();
  } else {
    std::error_code code;
    std::filesystem::create_directories(cache, code);
    if (code) throw Error(ErrorCode::Run, fmt::format("cannot make the directory '{}': {}", cache, code.message()));
    cache = std::filesystem::absolute(cache).string();  // a path with a slash, which dlopen does not search for
  }
  impl->path = fmt::format("{}/{}.so", cache, cache_key(source, command));
  if (!is_whole(impl->path)) build(source, std::move(command), cache, impl->path);
  impl->handle = ::dlopen(impl->path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!impl->handle) {
    const char* why = ::dlerror();
    throw Error(ErrorCode::Compile, fmt::format("the compiled library cannot be loaded: {}", why ? why : "no reason"));
  }
  pin_openmp_runtimes();
  impl->function = ::dlsym(impl->handle, name.c_str());
  if (!impl->function) throw Error(ErrorCode::Compile, fmt::format("the C text defines no function '{}'", name));
  Program program;
  program.impl_ = std::move(impl);
  return program;
}

namespace {

// The size of the team of the next parallel region of this thread, while it lives. The OpenMP runtime is the one that
// `library` was linked with.
class TeamSize {
 public:
  TeamSize(void* library, int threads) {
    if (threads <= 0) return;
    set_ = reinterpret_cast<void (*)(int)>(::dlsym(library, "omp_set_num_threads"));
    const auto get = reinterpret_cast<int (*)()>(::dlsym(library, "omp_get_max_threads"));
    if (!set_ || !get) return;
    before_ = get();
    set_(threads);
  }
  ~TeamSize() {
    if (before_ > 0) set_(before_);
  }
  TeamSize(const TeamSize&) = delete;
  TeamSize& operator=(const TeamSize&) = delete;

 private:
  void (*set_)(int) = nullptr;
  int before_ = 0;
};

}  // namespace

void run_c(UOp program, std::span<const BufferRef> buffers, const Options& options) {
  verify_structure(program, PipelineStage::Loops);
  const std::vector<KernelParam> params = program_params(program);
  check_buffers(params, buffers);
  Options with_flags = options;
  with_flags.cflags += " -fwrapv";  // i32 wraps in every program
  if (options.strict_float)
    with_flags.cflags += " -ffp-contract=off -fno-associative-math -fsigned-zeros -fexcess-precision=16";
  const std::string text = render_c_text(program, "kernel", {.check_bounds = options.check_bounds, .guarded = true});
  const Program compiled = compile_c(text, "kernel", with_flags);

  std::vector<void*> pointers;
  for (const BufferRef& b : buffers) pointers.push_back(b.data);
  const std::unique_ptr<void, int (*)(void*)> handle(::dlopen(compiled.library_path().c_str(), RTLD_LAZY | RTLD_NOLOAD),
                                                     ::dlclose);
  void* const library = handle.get();
  auto* const index_error = static_cast<int*>(::dlsym(library, "uopc_index_error"));
  if (index_error) *index_error = 0;
  {
    const TeamSize team(library, options.threads);
    compiled(pointers);
  }
  if (index_error && *index_error) throw Error(ErrorCode::Run, "an index is out of range of its buffer");
}

}  // namespace uopc
