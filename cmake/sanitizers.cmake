# LLVM is not instrumented. What follows from that is in the test presets: containers that cross the border look
# overflowing to ASan, and so does OpenMP's synchronisation to TSan.
set(UOPC_SANITIZE "" CACHE STRING "Sanitizers, as -fsanitize spells them: address,undefined or thread")

if(UOPC_SANITIZE)
  add_compile_options(-fsanitize=${UOPC_SANITIZE} -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${UOPC_SANITIZE})
  if(UOPC_SANITIZE MATCHES "undefined")
    add_compile_options(-fno-sanitize-recover=undefined)
  endif()
endif()
