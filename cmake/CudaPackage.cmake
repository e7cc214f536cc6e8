# The target package_cuda: build/cuda/package, one folder with all that a bare machine with a card needs to run, check and measure the
# CUDA plug-in. Beyond the folder it takes glibc (as of the machine that built it, or later) and NVIDIA's driver and libraries.
# Its programs share one library, libheadrace_parts.so: linked apart, each would carry 16 MB of the same code.
set(package_limit_mib 48)
set(packaged ${CMAKE_BINARY_DIR}/packaged)

add_library(headrace_parts SHARED EXCLUDE_FROM_ALL)
headrace_link(headrace_parts ${parts} cli testing)
# Symbols of the library are bound inside it: its calls cost what they cost in one program.
target_link_options(headrace_parts PRIVATE -Wl,-z,defs -Wl,-Bsymbolic -Wl,--gc-sections)
set_target_properties(headrace_parts PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${packaged})
set(package_targets headrace_parts headrace_cuda)

# headrace_packaged(NAME SOURCE [LIBS ...]): a program of the folder. It looks for libraries in the folder's lib/ first, and so do they
# (--disable-new-dtags: RUNPATH would not reach what a library needs). -fPIC, not -fPIE: an executable's own copies of the library's
# objects (copy relocations) would not be the ones that the library knows.
function(headrace_packaged name source)
  cmake_parse_arguments(arg "" "" "LIBS" ${ARGN})
  add_executable(packaged_${name} EXCLUDE_FROM_ALL ${source})
  set_target_properties(packaged_${name} PROPERTIES OUTPUT_NAME ${name} RUNTIME_OUTPUT_DIRECTORY ${packaged} POSITION_INDEPENDENT_CODE OFF
                        BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH "\$ORIGIN/lib")
  target_compile_options(packaged_${name} PRIVATE -fPIC)
  target_link_options(packaged_${name} PRIVATE -Wl,--disable-new-dtags -Wl,-rpath-link,${packaged})
  target_link_libraries(packaged_${name} PRIVATE headrace_parts fmt::fmt tl::expected Threads::Threads ${arg_LIBS})
  set(package_targets ${package_targets} packaged_${name} PARENT_SCOPE)
endfunction()

headrace_packaged(headrace cli/main.cc)
target_compile_definitions(packaged_headrace PRIVATE HEADRACE_VERSION="${PROJECT_VERSION}")
# Tests of the device, whatever folder they stand in: op_driver_cuda_test and the like.
file(GLOB_RECURSE cuda_tests CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/*_cuda_test.cc)
foreach(source ${cuda_tests})
  get_filename_component(name ${source} NAME_WE)
  headrace_packaged(${name} ${source} LIBS GTest::gmock GTest::gtest GTest::gtest_main)
endforeach()
headrace_packaged(cases_runner testing/cases_runner_main.cc)
headrace_packaged(op_bench ${CMAKE_SOURCE_DIR}/bench/op_bench_main.cc LIBS CLI11::CLI11)

set(package_files "")
foreach(target ${package_targets})
  list(APPEND package_files $<TARGET_FILE:${target}>)
endforeach()
add_custom_target(package_cuda
  COMMAND ${CMAKE_COMMAND} "-DFILES=${package_files}" -DFOLDER=${CMAKE_BINARY_DIR}/package -DSTRIP=${CMAKE_STRIP}
          -DLIMIT_MIB=${package_limit_mib} -P ${CMAKE_SOURCE_DIR}/cmake/MakePackage.cmake
  DEPENDS ${package_targets} VERBATIM)
