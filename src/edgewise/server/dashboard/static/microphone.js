// Runs beside the sound: hands over a tenth of a second at a time.

class Microphone extends AudioWorkletProcessor {
  constructor() {
    super();
    this.held = new Float32Array(2400);
    this.count = 0;
  }

  process([input]) {
    for (const value of input[0] || []) {
      this.held[this.count] = value;
      this.count += 1;
      if (this.count === this.held.length) {
        this.port.postMessage(this.held.slice());
        this.count = 0;
      }
    }
    return true;
  }
}

registerProcessor("microphone", Microphone);
