# The installed package: headers, library, tool, find_package(uopc) and pkg-config.
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/uopc)
install(TARGETS uopc EXPORT uopcTargets)
install(DIRECTORY include/uopc TYPE INCLUDE FILES_MATCHING PATTERN "*.hpp" PATTERN "*.h" PATTERN "*.def")
install(EXPORT uopcTargets NAMESPACE uopc:: DESTINATION ${package_dir})
configure_package_config_file(cmake/uopcConfig.cmake.in uopcConfig.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(uopcConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/uopcConfig.cmake ${PROJECT_BINARY_DIR}/uopcConfigVersion.cmake
        DESTINATION ${package_dir})
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})

if(BUILD_SHARED_LIBS)
  # The prefix may be chosen as late as `cmake --install --prefix`.
  install(CODE "
    set(CMAKE_INSTALL_LIBDIR \"${CMAKE_INSTALL_LIBDIR}\")
    set(CMAKE_INSTALL_INCLUDEDIR \"${CMAKE_INSTALL_INCLUDEDIR}\")
    set(PROJECT_VERSION \"${PROJECT_VERSION}\")
    configure_file(\"${PROJECT_SOURCE_DIR}/cmake/uopc.pc.in\" \"${PROJECT_BINARY_DIR}/uopc.pc\" @ONLY)")
  install(FILES ${PROJECT_BINARY_DIR}/uopc.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endif()
