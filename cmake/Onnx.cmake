# headrace_onnx_sources(OUT): the C++ of ONNX's two .proto files, by the distribution's protoc. The files come out of the wheel that
# cmake/onnx.txt pins: pip fetches it once, or HEADRACE_ONNX_WHEEL names a file with that hash.
set(HEADRACE_ONNX_WHEEL "" CACHE FILEPATH "The wheel of cmake/onnx.txt on disk, for machines without a network")
set(Protobuf_USE_STATIC_LIBS ON)
if(HEADRACE_CUDA)  # which puts all parts into one shared library: the distribution's static one cannot be linked into that
  set(Protobuf_USE_STATIC_LIBS OFF)
endif()
find_package(Protobuf 3.21 REQUIRED)

set(onnx_pin ${CMAKE_SOURCE_DIR}/cmake/onnx.txt)
set(onnx_folder ${CMAKE_BINARY_DIR}/onnx)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${onnx_pin})
file(STRINGS ${onnx_pin} onnx_line REGEX "^onnx==")
string(REGEX REPLACE ".*sha256:" "" onnx_hash "${onnx_line}")

# The stamp holds the hash: another pin is another wheel.
set(stamp "")
if(EXISTS ${onnx_folder}/stamp)
  file(READ ${onnx_folder}/stamp stamp)
endif()
if(NOT stamp STREQUAL onnx_hash)
  file(REMOVE_RECURSE ${onnx_folder})
  if(HEADRACE_ONNX_WHEEL)
    set(wheel ${HEADRACE_ONNX_WHEEL})
  else()
    find_package(Python3 REQUIRED COMPONENTS Interpreter)
    message(STATUS "Fetching the package of ${onnx_pin}")
    execute_process(
      COMMAND ${Python3_EXECUTABLE} -m pip download --quiet --disable-pip-version-check --no-deps --require-hashes --only-binary=:all:
              --implementation cp --python-version 311 --abi cp311 --platform manylinux_2_28_x86_64 --platform manylinux_2_27_x86_64
              --dest ${onnx_folder} --requirement ${onnx_pin}
      RESULT_VARIABLE failed)
    if(failed)
      message(FATAL_ERROR "The package of ${onnx_pin} could not be fetched; see pip's message above. Without a network, give the file: "
                          "cmake -DHEADRACE_ONNX_WHEEL=PATH")
    endif()
    file(GLOB wheel ${onnx_folder}/onnx-*.whl)
  endif()
  if(NOT EXISTS "${wheel}")
    message(FATAL_ERROR "HEADRACE_ONNX_WHEEL: no file ${wheel}")
  endif()
  file(SHA256 ${wheel} got)
  if(NOT got STREQUAL onnx_hash)
    message(FATAL_ERROR "${wheel}: want the file of ${onnx_pin}, SHA-256 ${onnx_hash}, got ${got}")
  endif()
  file(ARCHIVE_EXTRACT INPUT ${wheel} DESTINATION ${onnx_folder} PATTERNS onnx/onnx-ml.proto onnx/onnx-data.proto)
  file(WRITE ${onnx_folder}/stamp ${onnx_hash})
endif()

function(headrace_onnx_sources out)
  set(made "")
  foreach(name onnx-ml onnx-data)
    set(cc ${onnx_folder}/cc/onnx/${name}.pb.cc)
    add_custom_command(OUTPUT ${cc} ${onnx_folder}/cc/onnx/${name}.pb.h
      COMMAND ${CMAKE_COMMAND} -E make_directory ${onnx_folder}/cc
      COMMAND protobuf::protoc --proto_path=${onnx_folder} --cpp_out=${onnx_folder}/cc onnx/${name}.proto
      DEPENDS ${onnx_folder}/onnx/${name}.proto VERBATIM)
    list(APPEND made ${cc})
  endforeach()
  set_source_files_properties(${made} PROPERTIES COMPILE_OPTIONS "-w" SKIP_PRECOMPILE_HEADERS ON)
  set(${out} ${made} PARENT_SCOPE)
endfunction()
