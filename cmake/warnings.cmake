option(UOPC_WERROR "Warnings are errors" OFF)

function(uopc_warnings target)
  target_compile_options(${target} PRIVATE -Wall -Wextra $<$<BOOL:${UOPC_WERROR}>:-Werror>)
endfunction()
