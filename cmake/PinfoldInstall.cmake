# cmake --install: /usr by default, programs of the machine in sbin and libexec, units, manual pages.
set(libexec ${CMAKE_INSTALL_FULL_LIBEXECDIR}/pinfold)
set(sbin ${CMAKE_INSTALL_FULL_SBINDIR})

install(TARGETS pinfold RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS pinfold-agent RUNTIME DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/pinfold)
# For root alone: a program inside a cage that names /proc/self/exe as its interpreter cannot run or read it.
install(TARGETS pinfold-keeper RUNTIME DESTINATION ${CMAKE_INSTALL_SBINDIR} PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE)
install(TARGETS pinfold-init pinfold-probe pinfold-mcp RUNTIME DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/pinfold)

foreach(page pinfold.1 pinfold.conf.5 pinfold-agent.8 pinfold-keeper.8)
    string(REGEX MATCH "[0-9]$" section ${page})
    install(FILES docs/man/${page} DESTINATION ${CMAKE_INSTALL_MANDIR}/man${section})
endforeach()

# What shells complete by, printed by the program itself. Debian's zsh looks below /usr into vendor-completions.
if(CMAKE_INSTALL_PREFIX STREQUAL "/usr")
    set(zsh_completions zsh/vendor-completions)
else()
    set(zsh_completions zsh/site-functions)
endif()
foreach(shell_file bash:bash-completion/completions/pinfold zsh:${zsh_completions}/_pinfold)
    string(REPLACE ":" ";" parts ${shell_file})
    list(GET parts 0 shell)
    list(GET parts 1 file)
    install(CODE "
        set(to \"\$ENV{DESTDIR}${CMAKE_INSTALL_FULL_DATADIR}/${file}\")
        cmake_path(GET to PARENT_PATH folder)
        file(MAKE_DIRECTORY \"\${folder}\")
        execute_process(COMMAND ${PROJECT_BINARY_DIR}/bin/pinfold completion ${shell} OUTPUT_FILE \"\${to}\"
            COMMAND_ERROR_IS_FATAL ANY)
        file(CHMOD \"\${to}\" PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
        message(STATUS \"Installing: \${to}\")")
endforeach()

# systemd reads units of /usr/lib and /usr/local/lib, whatever the library folder of the architecture is.
foreach(unit keeper agent)
    configure_file(tools/systemd/pinfold-${unit}.service systemd/pinfold-${unit}.service @ONLY)
endforeach()
install(FILES ${PROJECT_BINARY_DIR}/systemd/pinfold-keeper.service DESTINATION lib/systemd/system)
install(FILES ${PROJECT_BINARY_DIR}/systemd/pinfold-agent.service DESTINATION lib/systemd/user)
install(FILES tools/systemd/keeper.conf DESTINATION ${CMAKE_INSTALL_DATADIR}/pinfold)
