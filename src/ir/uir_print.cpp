// The printer of A.5.
#include <fmt/format.h>

#include "ir/py_text.hpp"
#include "ir/walk.hpp"
#include "uopc/uir.hpp"

namespace uopc {
namespace {

class Printer {
 public:
  std::string run(UOp root) {
    if (root.is_const()) {
      out_ = "%0 = const ";
      constant(root.value());
      out_ += '\n';
    }
    post_order(root, [&](UOp u) {
      if (!u.is_const()) statement(u);
    });
    return std::move(out_);
  }

 private:
  void statement(UOp u) {
    const uint32_t number = static_cast<uint32_t>(numbers_.size());
    out_ += '%';
    integer(number);
    out_ += " = ";
    lower(name(u.op()));
    const char* separator = " ";
    const auto comma = [&] {
      out_ += separator;
      separator = ", ";
    };
    if (u.is(Op::Buffer) || u.is(Op::Alloc)) {
      comma();
      integer(u.arg<ParamArg>().shape[0]);
    }
    for (UOp s : u.src()) {
      comma();
      if (s.is_const()) {
        constant(s.value());
      } else {
        out_ += '%';
        integer(numbers_.at(s));
      }
    }
    if (kMovement.has(u.op())) {
      comma();
      if (u.is(Op::Shrink))
        out_ += py_tuple(u.arg<ShrinkArg>());
      else
        tuple(u.arg<Shape>());
    }
    attributes(u);
    out_ += '\n';
    numbers_.insert(u, number);
  }

  void attributes(UOp u) {
    switch (u.op()) {
      case Op::Param: {
        const ParamArg& a = u.arg<ParamArg>();
        out_ += " : slot=";
        integer(a.slot);
        out_ += " dtype=";
        out_ += name(a.dtype);
        if (a.shape.empty()) break;
        out_ += " shape=";
        tuple(a.shape);
        break;
      }
      case Op::Buffer:
      case Op::Alloc: {
        const ParamArg& a = u.arg<ParamArg>();
        out_ += " : dtype=";
        out_ += name(a.dtype);
        out_ += " slot=";
        integer(a.slot);
        if (!a.addrspace) break;
        out_ += " space=";
        lower(name(*a.addrspace));
        break;
      }
      case Op::Cast:
        out_ += " : dtype=";
        out_ += name(u.arg<DType>());
        break;
      case Op::Reduce:
        out_ += " : op=";
        lower(name(u.arg<ReduceArg>().op));
        out_ += " pop=";
        integer(u.arg<ReduceArg>().n);
        break;
      case Op::Range:
        out_ += " : idx=";
        integer(u.arg<RangeArg>().idx);
        out_ += " kind=";
        lower(name(u.arg<RangeArg>().kind));
        break;
      case Op::Call:
        out_ += " : name=";
        out_ += u.arg<CallArg>().name;
        break;
      case Op::Stage:
        if (std::holds_alternative<DetachArg>(u.arg())) out_ += " : name=detach";
        break;
      default:
        break;
    }
  }

  void constant(Scalar v) {
    if (v.is_bool()) {
      out_ += v.as_bool() ? "true" : "false";
    } else if (v.is_int()) {
      integer(v.as_int());
    } else {
      out_ += py_repr(v.as_float());
    }
  }
  void integer(int64_t v) {
    const fmt::format_int text(v);
    out_.append(text.data(), text.size());
  }
  void tuple(const Shape& s) {
    out_ += '(';
    for (size_t i = 0; i < s.size(); i++) {
      if (i) out_ += ", ";
      integer(s[i]);
    }
    out_ += s.size() == 1 ? ",)" : ")";
  }
  void lower(std::string_view s) {
    for (char c : s) out_ += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }

  std::string out_;
  NodeMap<uint32_t> numbers_;
};

}  // namespace

std::string to_uir(UOp root) {
  if (!root) throw Error(ErrorCode::Type, "to_uir of an empty UOp");
  return Printer().run(root);
}

}  // namespace uopc
