# oneDNN::dnnl for the plug-in of src/kernels/onednn: the library and headers out of the wheels that cmake/onednn.txt pins. pip fetches
# them once, or HEADRACE_ONEDNN_WHEELS names a folder that has them. HEADRACE_ONEDNN=OFF builds without; everything then runs on
# Headrace's own kernels.
set(onednn_default OFF)
if(CMAKE_SYSTEM_NAME STREQUAL "Linux" AND CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64" AND NOT HEADRACE_SANITIZE)
  set(onednn_default ON)
endif()
option(HEADRACE_ONEDNN "Build the oneDNN plug-in (x86-64 Linux)" ${onednn_default})
set(HEADRACE_ONEDNN_WHEELS "" CACHE PATH "A folder with the wheels of cmake/onednn.txt, for machines without a network")
if(NOT HEADRACE_ONEDNN)
  return()
endif()
find_package(OpenMP REQUIRED COMPONENTS CXX)

set(onednn_pin ${CMAKE_SOURCE_DIR}/cmake/onednn.txt)
set(onednn_folder ${CMAKE_BINARY_DIR}/onednn)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${onednn_pin})
file(STRINGS ${onednn_pin} onednn_lines REGEX "==")
string(REGEX MATCHALL "sha256:[0-9a-f]+" onednn_hashes "${onednn_lines}")

# The stamp holds the hashes: another pin is another wheel.
set(stamp "")
if(EXISTS ${onednn_folder}/stamp)
  file(READ ${onednn_folder}/stamp stamp)
endif()
if(NOT stamp STREQUAL "${onednn_hashes}")
  file(REMOVE_RECURSE ${onednn_folder})
  set(wheels ${HEADRACE_ONEDNN_WHEELS})
  if(NOT wheels)
    set(wheels ${onednn_folder})
    find_package(Python3 REQUIRED COMPONENTS Interpreter)
    message(STATUS "Fetching the packages of ${onednn_pin}")
    execute_process(
      COMMAND ${Python3_EXECUTABLE} -m pip download --quiet --disable-pip-version-check --no-deps --require-hashes --only-binary=:all:
              --implementation py --python-version 3 --abi none --platform manylinux1_x86_64
              --dest ${onednn_folder} --requirement ${onednn_pin}
      RESULT_VARIABLE failed)
    if(failed)
      message(FATAL_ERROR "The packages of ${onednn_pin} could not be fetched; see pip's message above. Without a network, give the "
                          "folder that has them: cmake -DHEADRACE_ONEDNN_WHEELS=PATH, or build without: -DHEADRACE_ONEDNN=OFF")
    endif()
  endif()
  file(GLOB found ${wheels}/onednn_*.whl)
  set(extracted "")
  foreach(wheel ${found})
    file(SHA256 ${wheel} got)
    if("sha256:${got}" IN_LIST onednn_hashes)
      file(ARCHIVE_EXTRACT INPUT ${wheel} DESTINATION ${onednn_folder}/wheels PATTERNS "*.data/*")
      list(APPEND extracted ${wheel})
    endif()
  endforeach()
  list(LENGTH extracted count)
  list(LENGTH onednn_hashes want)
  if(NOT count EQUAL want)
    message(FATAL_ERROR "${wheels}: want the ${want} files of ${onednn_pin} with the hashes there, got ${count}")
  endif()
  file(WRITE ${onednn_folder}/stamp "${onednn_hashes}")
endif()

file(GLOB onednn_include ${onednn_folder}/wheels/onednn_devel_*/data/include)
file(GLOB onednn_library ${onednn_folder}/wheels/onednn_cpu_*/data/lib/libdnnl.so.3)
add_library(oneDNN::dnnl SHARED IMPORTED GLOBAL)
set_target_properties(oneDNN::dnnl PROPERTIES IMPORTED_LOCATION ${onednn_library} IMPORTED_SONAME libdnnl.so.3
                      INTERFACE_INCLUDE_DIRECTORIES ${onednn_include})
