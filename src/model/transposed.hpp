// Matrices that a file has the other way round: [matrices][cols][rows] of any type, as f32 [matrices][rows][cols]. They
// are made when a device is about to read them, and given back once it has: until then they take addresses, not memory.
// Apart from model.cpp because it alone owns memory beside the file. One thread at a time.
#pragma once

#include <cstddef>
#include <span>

#include "gguf/reader.hpp"

namespace minfer::model {

class Transposed {
 public:
  // Of a tensor of three dimensions, which outlives it. Errors: out_of_memory where there are no addresses left.
  explicit Transposed(const gguf::TensorInfo& tensor);
  ~Transposed();
  Transposed(const Transposed&) = delete;
  Transposed& operator=(const Transposed&) = delete;

  std::span<const std::byte> data() const { return {memory_, bytes_}; }
  // Makes the values, if they are not there.
  void make();
  // Gives their memory back.
  void drop();

 private:
  const gguf::TensorInfo& tensor_;
  size_t bytes_;
  std::byte* memory_;
  bool made_ = false;
};

}  // namespace minfer::model
