# What `cmake --install BUILD --prefix PREFIX` puts where: the program, and the readme and licence beside its documents.
include(GNUInstallDirs)

if(TARGET minfer)
  install(TARGETS minfer RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT minfer)
endif()
install(FILES README.md LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT minfer)
