# SPDX-License-Identifier: Apache-2.0
# Names folders in mimalloc.pc, which we do not install.
function(join_paths result first second)
  set(${result} "${first}/${second}" PARENT_SCOPE)
endfunction()
