# pinfold_options: the warnings, the hardening and the sanitizers every target is built with.
add_library(pinfold_options INTERFACE)
target_include_directories(pinfold_options INTERFACE ${PROJECT_SOURCE_DIR}/userspace ${PROJECT_SOURCE_DIR}/include)
target_compile_definitions(pinfold_options INTERFACE _GNU_SOURCE PINFOLD_VERSION="${PROJECT_VERSION}")
target_compile_options(pinfold_options INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror
    -Wno-missing-designated-field-initializers # an omitted field is the strictest value, by design
    -fstack-protector-strong -fstack-clash-protection -ftrivial-auto-var-init=zero)
if(CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64")
    target_compile_options(pinfold_options INTERFACE -fcf-protection=full)
endif()
target_compile_definitions(pinfold_options INTERFACE _GLIBCXX_ASSERTIONS)
target_link_options(pinfold_options INTERFACE -fuse-ld=lld-19 -Wl,-z,relro,-z,now)
if(PINFOLD_SANITIZE)
    # Not for static programs: the sanitizers' run time does not link statically.
    set(dynamic "$<NOT:$<BOOL:$<TARGET_PROPERTY:PINFOLD_STATIC>>>")
    target_compile_options(pinfold_options INTERFACE
        "$<${dynamic}:-fsanitize=address,undefined;-fno-sanitize-recover=undefined;-fno-omit-frame-pointer>"
        "$<${dynamic}:-fsanitize-ignorelist=${PROJECT_SOURCE_DIR}/tests/sanitizers.ignore>")
    target_link_options(pinfold_options INTERFACE "$<${dynamic}:-fsanitize=address,undefined>")
elseif(NOT CMAKE_BUILD_TYPE STREQUAL "Debug")
    target_compile_definitions(pinfold_options INTERFACE _FORTIFY_SOURCE=3)
endif()

# pinfold_library(NAME FOLDER): one static library a folder; what it may use is said by target_link_libraries.
function(pinfold_library name folder)
    file(GLOB sources CONFIGURE_DEPENDS ${folder}/*.cpp)
    add_library(${name} STATIC ${sources})
    target_link_libraries(${name} PUBLIC pinfold_options)
endfunction()

# pinfold_program(NAME SOURCE LIBRARY): a program of the machine.
function(pinfold_program name source parts)
    add_executable(${name} ${source})
    target_link_libraries(${name} PRIVATE ${parts})
    set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
    target_compile_options(${name} PRIVATE -fPIE)
    target_link_options(${name} PRIVATE -pie)
endfunction()

# pinfold_static(NAME PATTERNS): a program that runs inside a cage, where no library of the machine can be counted on.
function(pinfold_static name pattern)
    file(GLOB found CONFIGURE_DEPENDS ${pattern})
    if(NOT found)
        message(WARNING "${name}: ${pattern} is missing, so it is not built")
        return()
    endif()
    add_executable(${name} ${found})
    set_target_properties(${name} PROPERTIES PINFOLD_STATIC ON
        RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/libexec)
    target_link_libraries(${name} PRIVATE pinfold_options)
    target_link_options(${name} PRIVATE -static)
endfunction()
